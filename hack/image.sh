#!/usr/bin/env bash
# Builds a container image without Docker, and prints its digest. It contains only programs, which are therefore
# static, their user, and license texts.
#
#   hack/image.sh OUTPUT FOLDER PROGRAM…     FOLDER has the license texts; a program for each architecture
set -euo pipefail
cd "$(dirname "$0")/.."

output=$1
arguments=()
for license in "$2"/*; do
	arguments+=(--license "$license")
done
for program in "${@:3}"; do
	arguments+=(--program "$program")
done
name=node-resource-advertiser
version=$(hack/version.sh)
label=org.opencontainers.image
mkdir -p "$(dirname "$output")"
hack/xtask.sh image "${arguments[@]}" --argument run --output "$output" \
	--reference "ghcr.io/noderesource/$name:$version" \
	--label "$label.title=$name" --label "$label.version=$version" --label "$label.licenses=Apache-2.0" \
	--label "$label.source=https://github.com/noderesource/node-resource-advertiser" \
	--label "$label.revision=$(git describe --always --dirty --abbrev=40 --exclude '*')" \
	--label "$label.description=$(sed -n 's/^description = "\(.*\)"/\1/p' Cargo.toml)"
