#!/usr/bin/env bash
# Copies CustomResourceDefinitions out of a Go module into a folder.
#
#   hack/crds.sh FOLDER GO-MOD MODULE[@VERSION] FILE…
#
# GO-MOD is the folder of the go.mod that has the module's version, but for one that is named with it.
set -euo pipefail

folder=$1
json=$(cd "$2" && GOWORK=off go mod download -json "$3")
shift 3
source=$(sed -n 's/^\t"Dir": "\(.*\)",$/\1/p' <<< "$json")
mkdir -p "$folder"
for file in "$@"; do
	install -m 644 "$source/$file" "$folder/$(basename "$file")"
done
