#!/usr/bin/env bash
# Runs make targets with overlapping steps, and prints the time of each step, also after a failure.
#
#   hack/steps.sh MAKE TARGET…
set -euo pipefail
export LC_ALL=C.UTF-8

make=$1
shift
export STEPS=target/steps
mkdir -p "$STEPS"
rm -f "$STEPS"/* "$STEPS.tsv"
touch "$STEPS.tsv"

report() {
	local status=$?
	awk -F '\t' -v wall="$SECONDS" '
		BEGIN { row = "%-20s %-6s %8s %8s\n"; printf row, "STEP", "RESULT", "WALL s", "CPU s" }
		{ printf row, $1, $2 ? "FAILED" : "passed", sprintf("%.1f", $3), sprintf("%.1f", $4); cpu += $4 }
		END { printf row, "all, overlapping", "", sprintf("%.1f", wall), sprintf("%.1f", cpu) }
	' "$STEPS.tsv"
	if ((status > 128)); then
		echo "==> ended by a signal; the logs are in $STEPS/" >&2
	elif ((status)); then
		echo "==> FAILED: $(awk -F '\t' '$2 { print $1 }' "$STEPS.tsv" | paste -s -d ' '); the logs are in $STEPS/" >&2
	else
		echo "==> all passed: $*"
	fi
}
trap 'report "$@"' EXIT
# Otherwise the report would count this as a success.
trap 'exit 143' TERM
trap 'exit 130' INT

# The order of the steps in hack/test.mk keeps fewer jobs than this busy.
"$make" --jobs="${JOBS:-4}" "$@"
