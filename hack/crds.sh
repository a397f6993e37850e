#!/usr/bin/env bash
# Copies CustomResourceDefinitions, and other files, out of a Go module into a folder.
#
#   hack/crds.sh FOLDER GO-MOD MODULE[@VERSION] FILE…
#
# See hack/go-module.sh for GO-MOD.
set -euo pipefail
cd "$(dirname "$0")/.."

folder=$1
source=$(hack/go-module.sh "$2" "$3")
shift 3
mkdir -p "$folder"
for file in "$@"; do
	install -m 644 "$source/$file" "$folder/$(basename "$file")"
done
