#!/usr/bin/env bash
# Prints the version of this project, or replaces it in every file that names it.
#
#   hack/version.sh [VERSION]
set -euo pipefail
cd "$(dirname "$0")/.."

old=$(sed -n 's/^version = "\(.*\)"/\1/p' Cargo.toml)
if (($# == 0)); then
	echo "$old"
	exit
fi
new=$1
if [[ ! $new =~ ^[0-9]+\.[0-9]+\.[0-9]+(-[0-9a-z.]+)?$ ]]; then
	echo "$new is not a version, such as 0.2.0" >&2
	exit 2
fi
# Not in CHANGELOG.md, whose versions are past ones, in lock files, which name the versions of others, in recordings, and
# where the text is about a version rather than about the current one.
git grep --files-with-matches --fixed-strings "$old" -- Cargo.toml .pre-commit-hooks.yaml '*.md' charts examples \
	':!CHANGELOG.md' ':!RELEASE.md' ':!docs/compatibility.md' |
	xargs sed --in-place --regexp-extended "s/(^|[^0-9.])${old//./\\.}([^0-9.]|\$|\.[^0-9]|\.\$)/\1$new\2/g"
# Flux follows patch versions.
sed --in-place "s/semver: ${old%.*}\.x/semver: ${new%.*}.x/" examples/gitops/flux/controller.yaml
cargo update --workspace --quiet
git diff --stat
