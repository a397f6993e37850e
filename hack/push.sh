#!/usr/bin/env bash
# Pushes the image and the charts of a release to a registry, and prints their references with digests, the image first.
#
#   hack/push.sh FOLDER REGISTRY
set -euo pipefail
cd "$(dirname "$0")/.."

name=node-resource-advertiser
version=$(hack/version.sh)
layout=$(mktemp -d)
trap 'rm -rf "$layout"' EXIT

push() {
	find "$layout" -mindepth 1 -delete
	tar --extract --file "$1" --directory "$layout"
	target/tools/bin/crane push "$layout" "$2:$version"
}

push "$1/$name-$version-image.tar" "$2/$name"
for chart in "$name" "$name-rules"; do
	push "$1/$chart-$version-chart.tar" "$2/charts/$chart"
done
