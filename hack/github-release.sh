#!/usr/bin/env bash
# Creates a release on GitHub with the files of a folder that hack/publish.sh has signed, in a workflow for its tag.
#
#   hack/github-release.sh FOLDER
set -euo pipefail
cd "$(dirname "$0")/.."

version=$(hack/version.sh)
notes=$(hack/notes.sh "$version")
flags=()
if [[ $version == *-* ]]; then
	flags+=(--prerelease)
fi
gh release create "v$version" --verify-tag --title "$version" --notes "$notes" ${flags[@]+"${flags[@]}"} "$1"/*
