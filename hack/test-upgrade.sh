#!/usr/bin/env bash
# Tests an upgrade from an earlier version, built from its commit, and a rollback.
#
#   hack/test-upgrade.sh COMMIT IMAGE PAUSE-IMAGE
set -euo pipefail
cd "$(dirname "$0")/.."

if [[ -z $1 ]]; then
	echo 'name the commit of the earlier version: make test-upgrade FROM=<commit>' >&2
	exit 2
fi
commit=$(git rev-parse --verify "$1^{commit}")
folder=$PWD/target/upgrade/$commit
if [[ ! -e $folder/done ]]; then
	rm -rf "$folder"
	mkdir -p "$folder"
	git archive --format=tar --prefix=source/ "$commit" | tar --extract --directory="$folder"
	(
		cd "$folder/source"
		export CARGO_TARGET_DIR=$folder/target
		cargo rustc --locked --bin node-resource-advertiser -- -C target-feature=+crt-static -C strip=symbols
	)
	target/debug/xtask image --created 0 --argument run \
		--reference ghcr.io/noderesource/node-resource-advertiser:before \
		--program "$folder/target/debug/node-resource-advertiser" --output "$folder/image.tar"
	touch "$folder/done"
fi
export BEFORE_IMAGE=$folder/image.tar BEFORE_CHART=$folder/source/charts/node-resource-advertiser
exec hack/test-cluster.sh "$2" "$3" --ignored upgrade::
