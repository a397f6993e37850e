#!/usr/bin/env bash
# Runs make targets with overlapping steps, and prints the result and the time of each step, also after a failure.
#
#   hack/steps.sh MAKE TARGET…
#
# target/steps.tsv has a line for each step: its name, `passed`, `skipped`, `failed`, `timed out` or `interrupted`, wall
# and CPU seconds, and the reason. A step times out where something ends this script, such as timeout(1).
# target/tests.tsv has a line for each test, see hack/test-runner.sh; the slowest 30 are printed.
set -euo pipefail
export LC_ALL=C.UTF-8

make=$1
shift
export STEPS=target/steps
mkdir -p "$STEPS"
tests=target/tests.tsv
rm -f "$STEPS"/* "$STEPS.tsv" "$tests"
touch "$STEPS.tsv"
began=$EPOCHSECONDS

# The steps that have not ended, if a signal ends this script.
add_unfinished() {
	local running name
	for running in "$STEPS"/*.running; do
		[[ -e $running ]] || continue
		name=$(basename "$running" .running)
		# It may have ended, without the time to say so.
		grep --quiet "^$name"$'\t' "$STEPS.tsv" && continue
		printf '%s\t%s\t%s\t\t\n' "$name" "$1" "$((EPOCHSECONDS - $(stat --format=%Y "$running")))" >> "$STEPS.tsv"
	done
}

print_slowest() {
	[[ -s $tests ]] || return 0
	echo
	sort --field-separator $'\t' --key 3,3 --general-numeric-sort --reverse "$tests" | head -30 | awk -F '\t' '
		BEGIN { row = "%8s %8s  %s%s\n"; printf row, "WALL s", "CPU s", "THE SLOWEST TESTS, AND THE LONGEST WAIT OF EACH", "" }
		{ printf row, sprintf("%.1f", $3), $4 == "" ? "" : sprintf("%.1f", $4), $1 " " $2,
			$5 == "" ? "" : sprintf(": %.1f s for %s", $6, substr($5, 1, 80)) }
	'
	echo
}

report() {
	local status=$?
	print_slowest || true
	case $status in
	143) add_unfinished 'timed out' ;;
	130) add_unfinished interrupted ;;
	esac
	awk -F '\t' -v wall="$((EPOCHSECONDS - began))" '
		BEGIN { row = "%-24s %-11s %8s %8s%s\n"; printf row, "STEP", "RESULT", "WALL s", "CPU s", "" }
		{ printf row, $1, $2 == "failed" ? "FAILED" : $2, sprintf("%.1f", $3), sprintf("%.1f", $4), $5 == "" ? "" : "  " $5; cpu += $4 }
		END { printf row, "all, overlapping", "", sprintf("%.1f", wall), sprintf("%.1f", cpu), "" }
	' "$STEPS.tsv"
	if ((status > 128)); then
		echo "==> ended by a signal; the logs are in $STEPS/" >&2
	elif ((status)); then
		echo "==> FAILED: $(awk -F '\t' '$2 == "failed" { print $1 }' "$STEPS.tsv" | paste -s -d ' '); the logs are in $STEPS/" >&2
	elif grep --quiet $'\tskipped\t' "$STEPS.tsv"; then
		echo "==> passed, but for what was skipped: $(awk -F '\t' '$2 == "skipped" { print $1 }' "$STEPS.tsv" | paste -s -d ' ')"
	else
		echo "==> all passed: $*"
	fi
}
trap 'report "$@"' EXIT
# Otherwise the report would count this as a success.
trap 'exit 143' TERM
trap 'exit 130' INT

# The order of the steps in hack/test.mk keeps fewer jobs than this busy.
"$make" --jobs="${JOBS:-5}" "$@"
