#!/usr/bin/env bash
# What of `make test-all` CI runs besides `make test`: the steps whose files changed since they passed.
#
#   hack/changed.sh list             prints these steps, first the one that was tried the longest ago
#   hack/changed.sh run SECONDS      runs them for so long at most. With SLOW=1, on a machine where not all will
#                                    pass in that time, the first alone: each has its turn, run after run.
#
# A step that passes is noted in BUILD_CACHE, by what is in its files. One that does not end in time is no
# failure: it is left to the next run, for which more of it is built.
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

list() {
	local step tried
	for step in "${!covers[@]}"; do
		if [[ ! -e $(note "$step") ]]; then
			tried=$(stat --format=%.Y "$BUILD_CACHE/tried/$step" 2> /dev/null) || tried=0
			echo "$tried $step"
		fi
	done | sort --numeric-sort | cut --delimiter ' ' --fields 2
}

# Creates a file, or its time; where nothing can be kept, every run begins with the same list.
keep() {
	{ mkdir -p "$(dirname "$1")" && touch "$1"; } || echo "warning: the build cache: cannot write $1" >&2
}

run() {
	local seconds=$1 steps step status=0
	# Not by <(…), which would take a failure for an empty list.
	steps=$(list)
	read -r -a steps <<< "${steps//$'\n'/ }"
	if ((${#steps[@]} == 0)); then
		echo '==> the other steps of `make test-all` passed with the same files before'
		return
	elif ((seconds < 60)); then
		echo "==> left to the next run, as no time is left in this one: ${steps[*]}"
		return
	elif [[ -n ${SLOW:-} ]] && ((${#steps[@]} > 1)); then
		echo "==> left to the next run, as this machine is slow: ${steps[*]:1}"
		steps=("${steps[0]}")
	fi
	echo "==> changed since they passed, for $seconds s at most: ${steps[*]}"
	for step in "${steps[@]}"; do
		# Before it runs: one that never ends in time must not keep the others from their turn.
		keep "$BUILD_CACHE/tried/$step"
	done
	# It ends the whole group of processes.
	timeout --kill-after=60 "$seconds" hack/steps.sh make "${steps[@]}" || status=$?
	for step in "${steps[@]}"; do
		if grep --quiet --fixed-strings --line-regexp "$step"$'\t'0 <(cut --fields 1,2 target/steps.tsv); then
			keep "$(note "$step")"
		elif ((status != 0 && status != 124 && status != 137)); then
			# It failed, or did not run for that: it is the first in the next run.
			rm -f "$BUILD_CACHE/tried/$step" || true
		fi
	done
	if ((status == 124 || status == 137)); then
		echo "==> not all ended within $seconds s: what did not pass is left to the next run"
		return
	fi
	return "$status"
}

case $1 in
list) list ;;
run) run "$2" ;;
esac
