#!/usr/bin/env bash
# The steps of `make test-all` that CI runs after `make test`: those whose files changed since they passed.
#
#   hack/changed.sh list             prints these steps, the least recently tried first
#   hack/changed.sh run SECONDS      runs them within this time. With SLOW=1, for a machine that cannot run all of
#                                    them in that time, runs only the first: each run takes the next one.
#
# BUILD_CACHE records each step that passed, by the content of its files. A step that does not end in time is not a
# failure: the next run repeats it, with more of it already built.
set -euo pipefail
cd "$(dirname "$0")/.."

# For each step that tests a tool rather than this project, the files that its result depends on.
declare -A covers=(
	[test-harness]='tests/harness tests/controlplane tests/go.work tests/go.work.sum Cargo.lock hack'
	[test-alerts]='charts/node-resource-advertiser/files docs/runbook.md docs/operations.md tests/testdata tests/tools/alerts hack'
	[test-release]='xtask Cargo.toml Cargo.lock Makefile RELEASE.md docs/verify.md tests/release tests/signing tests/krew tests/harness charts hack .github'
	[test-gitops]='examples .github crds charts/node-resource-advertiser/files tests/gitops tests/e2e/gitops tests/e2e/gitops.rs tests/e2e/main.rs tests/e2e/support tests/harness src Cargo.toml Cargo.lock hack'
)

note() {
	local digest
	# shellcheck disable=SC2086
	digest=$(git ls-files -z -- ${covers[$1]} | xargs -0 sha256sum | sha256sum | cut -c 1-32)
	echo "$BUILD_CACHE/passed/$1-$digest"
}

list() {
	local step tried
	for step in "${!covers[@]}"; do
		if [[ ! -e $(note "$step") ]]; then
			tried=$(stat --format=%.Y "$BUILD_CACHE/tried/$step" 2> /dev/null) || tried=0
			echo "$tried $step"
		fi
	done | sort --numeric-sort | cut --delimiter ' ' --fields 2
}

# Creates a file or updates its time. If that fails, every run begins with the same list.
keep() {
	{ mkdir -p "$(dirname "$1")" && touch "$1"; } || echo "warning: the build cache: cannot write $1" >&2
}

run() {
	local seconds=$1 steps step status=0
	# Not with <(…), which would turn a failure into an empty list.
	steps=$(list)
	read -r -a steps <<< "${steps//$'\n'/ }"
	if ((${#steps[@]} == 0)); then
		echo '==> the other steps of `make test-all` passed with the same files before'
		return
	elif ((seconds < 60)); then
		echo "==> postponed to the next run, because no time is left: ${steps[*]}"
		return
	elif [[ -n ${SLOW:-} ]] && ((${#steps[@]} > 1)); then
		echo "==> postponed to the next run, because this machine is slow: ${steps[*]:1}"
		steps=("${steps[0]}")
	fi
	echo "==> changed since they passed, running for at most $seconds s: ${steps[*]}"
	for step in "${steps[@]}"; do
		# Before the step runs: one that never ends in time must not block the others.
		keep "$BUILD_CACHE/tried/$step"
	done
	# Ends the whole process group.
	timeout --kill-after=60 "$seconds" hack/steps.sh make "${steps[@]}" || status=$?
	for step in "${steps[@]}"; do
		if grep --quiet --fixed-strings --line-regexp "$step"$'\t'0 <(cut --fields 1,2 target/steps.tsv); then
			keep "$(note "$step")"
		elif ((status != 0 && status != 124 && status != 137)); then
			# The step failed, or did not run after a failure: the next run starts with it.
			rm -f "$BUILD_CACHE/tried/$step" || true
		fi
	done
	if ((status == 124 || status == 137)); then
		echo "==> not all steps ended within $seconds s: the next run repeats those that did not pass"
		return
	fi
	return "$status"
}

case $1 in
list) list ;;
run) run "$2" ;;
esac
