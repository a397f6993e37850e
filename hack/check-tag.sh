#!/usr/bin/env bash
# Checks, in a workflow for a tag, that it may become a release: it is that of the version, its commit is on main and has
# passed ci.yaml there, and GitHub has verified the tag's signature.
#
#   hack/check-tag.sh
set -euo pipefail
cd "$(dirname "$0")/.."

version=$(hack/version.sh)
tag=$GITHUB_REF_NAME
commit=$(git rev-parse 'HEAD^{commit}')
api=repos/$GITHUB_REPOSITORY
fail() {
	echo "the tag $tag is no release: $1" >&2
	exit 1
}

[[ $tag == "v$version" ]] || fail "Cargo.toml has the version $version"
git merge-base --is-ancestor "$commit" refs/remotes/origin/main || fail "its commit $commit is not on main: merge it first"
# The object that the tag refers to: a tag of its own if it is annotated.
read -r kind object < <(gh api "$api/git/ref/tags/$tag" --jq '.object.type + " " + .object.sha')
[[ $kind == tag ]] || fail 'it has no signature: create it with git tag --sign'
[[ $(gh api "$api/git/tags/$object" --jq .object.sha) == "$commit" ]] || fail "it has moved from $commit"
verified=$(gh api "$api/git/tags/$object" --jq '(.verification.verified | tostring) + " " + .verification.reason')
[[ $verified == 'true '* ]] || fail "GitHub cannot verify its signature (${verified#* }): sign it with a key of your account"
passed=$(gh api "$api/actions/workflows/ci.yaml/runs?head_sha=$commit&branch=main&event=push&status=success" --jq .total_count)
((passed)) || fail "no run of ci.yaml on main has passed for $commit: wait for it, or repair main"
