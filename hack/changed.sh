#!/usr/bin/env bash
# The steps of `make test-all` that CI runs after `make test`: those whose files changed since they passed.
#
#   hack/changed.sh list             prints these steps, the least recently tried first
#   hack/changed.sh run SECONDS      runs them within this time. With SLOW=1, for a machine that cannot run all of
#                                    them in that time, runs only the first: each run takes the next one.
#
# BUILD_CACHE records each step that passed, and each that timed out, by the content of its files. A step that times out
# is repeated by the next run, with more of it already built. If it times out again with the same files, that run fails.
set -euo pipefail
cd "$(dirname "$0")/.."

# What every step depends on.
common='Cargo.toml Cargo.lock rust-toolchain.toml Makefile hack'
# For each step that tests a tool rather than this project, the other files that its result depends on.
declare -A covers=(
	[test-harness]='tests/harness tests/controlplane tests/go.work tests/go.work.sum'
	[test-alerts]='charts/node-resource-advertiser/files docs/images/dashboard.svg docs/runbook.md docs/monitoring.md src tests/harness tests/testdata tests/tools/alerts'
	[test-release]='xtask src deploy/static RELEASE.md about.toml docs/verify.md tests/release tests/signing tests/krew tests/harness tests/tools charts .github'
	[test-kyverno]='src/cli/guard.rs src/cli/guard tests/e2e/guard.rs tests/e2e/guard tests/kyverno tests/harness'
	[test-gitops]='examples docs .github crds charts/node-resource-advertiser/files tests/gitops tests/tools tests/e2e tests/harness src'
)
# Too little time for any step proves nothing about it.
least=600

# Prints the file that records something of a step with its present files.
record() {
	local digest
	# shellcheck disable=SC2086
	digest=$(git ls-files -z -- $common ${covers[$2]} | xargs -0 sha256sum | sha256sum | cut -c 1-32)
	echo "$BUILD_CACHE/$1/$2-$digest"
}

list() {
	local step tried
	for step in "${!covers[@]}"; do
		if [[ ! -e $(record passed "$step") ]]; then
			tried=$(stat --format=%.Y "$BUILD_CACHE/tried/$step" 2> /dev/null) || tried=0
			echo "$tried $step"
		fi
	done | sort --numeric-sort | cut --delimiter ' ' --fields 2
}

# Creates a file or updates its time. If that fails, every run begins with the same list.
keep() {
	{ mkdir -p "$(dirname "$1")" && touch "$1"; } || echo "warning: the build cache: cannot write $1" >&2
}

# Records how a step has ended, given the status of the run. Fails if it has failed, or has timed out again.
conclude() {
	local step=$1 status=$2 result
	result=$(awk -F '\t' -v step="$step" '$1 == step { print $2; exit }' target/steps.tsv)
	# What it needs may have taken the time.
	if [[ -z $result ]] && ((status == 124 || status == 137)); then
		result='timed out'
	fi
	case $result in
	passed) keep "$(record passed "$step")" ;;
	'timed out')
		if [[ -e $(record timed-out "$step") ]]; then
			echo "==> $step timed out again, with the same files" >&2
			return 1
		fi
		keep "$(record timed-out "$step")"
		echo "==> $step timed out: the next run repeats it, and fails if it times out again"
		;;
	skipped) ;;
	*)
		# The step failed, or did not run after a failure: the next run starts with it.
		rm -f "$BUILD_CACHE/tried/$step" || true
		[[ $result != failed ]]
		;;
	esac
}

run() {
	local seconds=$1 steps step status=0 failed=0
	# Not with <(…), which would turn a failure into an empty list.
	steps=$(list)
	read -r -a steps <<< "${steps//$'\n'/ }"
	if ((${#steps[@]} == 0)); then
		echo '==> the other steps of `make test-all` passed with the same files before'
		return
	elif ((seconds < least)); then
		echo "==> skipped, because less than $least s are left: ${steps[*]}"
		return
	elif [[ -n ${SLOW:-} ]] && ((${#steps[@]} > 1)); then
		echo "==> skipped until the next run, because this machine is slow: ${steps[*]:1}"
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
		conclude "$step" "$status" || failed=1
	done
	# Beside the requested steps, what they need may have failed.
	if ((status != 0 && status != 124 && status != 137)) || grep --quiet $'\tfailed\t' target/steps.tsv; then
		failed=1
	fi
	return "$failed"
}

case $1 in
list) list ;;
run) run "$2" ;;
esac
