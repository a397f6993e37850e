#!/usr/bin/env bash
# Keeps a copy of a folder in the build cache, under a name that ends with its key.
#
#   hack/keep.sh FOLDER CACHED
#
# A copy appears whole or not at all, and is never changed. Old ones go, unless a run may be using them.
set -euo pipefail

folder=$1
cached=$2
parent=$(dirname "$cached")
kind=$(basename "${cached%-*}")
mkdir -p "$parent"
stage=$(mktemp -d "$parent/.stage.XXXXXX")
trap 'rm -rf "$stage"' EXIT
cp --archive "$folder"/. "$stage"
chmod 755 "$stage"
touch "$stage"
# Where another run was faster, its copy stays: it is from the same.
mv --no-target-directory "$stage" "$cached" 2> /dev/null || [[ -d $cached ]]

find "$parent" -maxdepth 1 -name '.stage.*' -mmin +600 -exec rm -rf {} +
find "$parent" -maxdepth 1 -name "$kind-*" -mmin +600 -printf '%T@ %p\n' | sort --numeric-sort --reverse |
	tail --lines +4 | cut --delimiter ' ' --fields 2- | xargs --no-run-if-empty --delimiter '\n' rm -rf --
