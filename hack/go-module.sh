#!/usr/bin/env bash
# Downloads a Go module, and prints its folder.
#
#   hack/go-module.sh GO-MOD MODULE[@VERSION]
#
# GO-MOD is the folder of the go.mod with the module's version, unless a version is given. Not with `go list`, which
# returns no folder for a module that is not downloaded yet.
set -euo pipefail

json=$(cd "$1" && GOWORK=off go mod download -json "$2")
folder=$(sed -n 's/^\t"Dir": "\(.*\)",$/\1/p' <<< "$json")
if [[ -z $folder ]]; then
	echo "$2 has no folder: go mod download printed $json" >&2
	exit 1
fi
echo "$folder"
