#!/usr/bin/env bash
# What of `make test-all` CI runs besides `make test`: the steps whose files changed since they passed.
#
#   hack/changed.sh list             prints these steps
#   hack/changed.sh passed STEP…     notes that they passed
set -euo pipefail
cd "$(dirname "$0")/.."

# For each step that proves a tool rather than this project, the files that its verdict depends on.
declare -A covers=(
	[test-harness]='tests/harness tests/controlplane tests/go.work tests/go.work.sum Cargo.lock hack'
	[test-alerts]='charts/node-resource-advertiser/files docs/runbook.md tests/tools/alerts hack'
	[test-gitops]='examples crds charts/node-resource-advertiser/files tests/gitops tests/e2e/gitops tests/e2e/gitops.rs tests/e2e/main.rs tests/e2e/support tests/harness src Cargo.toml Cargo.lock hack'
)

note() {
	local digest
	# shellcheck disable=SC2086
	digest=$(git ls-files -z -- ${covers[$1]} | xargs -0 sha256sum | sha256sum | cut -c 1-32)
	echo "$BUILD_CACHE/passed/$1-$digest"
}

case $1 in
list)
	for step in "${!covers[@]}"; do
		[[ -e $(note "$step") ]] || echo "$step"
	done | sort
	;;
passed)
	shift
	mkdir -p "$BUILD_CACHE/passed"
	for step in "$@"; do
		touch "$(note "$step")"
	done
	;;
esac
