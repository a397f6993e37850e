#!/usr/bin/env bash
# Prints the section of CHANGELOG.md about a version.
#
#   hack/notes.sh VERSION
set -euo pipefail
cd "$(dirname "$0")/.."

notes=$(awk -v heading="## $1 " 'index($0 " ", heading) == 1 { found = 1; next } /^## / { found = 0 } found' CHANGELOG.md)
if [[ -z $notes ]]; then
	echo "CHANGELOG.md has no section \"## $1\": rename \"Unreleased\"" >&2
	exit 1
fi
# Links of the page lead nowhere in the text of a release.
echo "${notes//](docs\//](https://github.com/noderesource/node-resource-advertiser/blob/v$1/docs/}"
