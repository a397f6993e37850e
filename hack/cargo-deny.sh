#!/usr/bin/env bash
# Builds cargo-deny.
#
#   hack/cargo-deny.sh VERSION FOLDER
set -euo pipefail
cd "$(dirname "$0")/.."

version=$1
folder=$2
if [[ $("$folder/cargo-deny" --version 2> /dev/null) == "cargo-deny $version" ]]; then
	exit 0
fi
key=$({ rustc --version --verbose; sha256sum hack/cargo-deny.sh; } | sha256sum | cut -c 1-32)
cached=tools/cargo-deny-$version-$key
root=target/tools/cargo-deny
rm -rf "$root"
mkdir -p "$root"
if ! hack/cache.sh restore "$cached" "$root"; then
	# It runs for two seconds, so an optimized build is not worth its time.
	CARGO_PROFILE_DEV_DEBUG=0 CARGO_INCREMENTAL=0 cargo install --quiet --locked --debug --force --root "$root" \
		--target-dir target/tools/build --version "$version" cargo-deny
	rm -rf target/tools/build
	hack/cache.sh save "$root" "$cached"
fi
mkdir -p "$folder"
cp "$root/bin/cargo-deny" "$folder/cargo-deny"
