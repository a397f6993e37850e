#!/usr/bin/env bash
# Runs a program of tests for cargo, and appends a line for each test to target/tests.tsv:
#
#   program  test  wall s  CPU s  waited for  s
#
# The last three are those of the test's processes, such as API servers, and of its longest wait: only tests that use
# tests/harness have them.
set -euo pipefail
export LC_ALL=C.UTF-8

program=$1
shift
folder=$(cd "$(dirname "$0")/.." && pwd)/target
name=$(basename "$program")
TEST_COSTS=$(mktemp "$folder/costs.XXXXXX")
export TEST_COSTS
output=$TEST_COSTS.output
trap 'rm -f "$TEST_COSTS" "$output"' EXIT
status=0
# libtest measures times only where unstable options are allowed.
RUSTC_BOOTSTRAP=1 "$program" "$@" -Z unstable-options --report-time | tee "$output" || status=$?
awk -v program="${name%-*}" -v costs="$TEST_COSTS" '
	BEGIN {
		while ((getline line < costs) > 0) cost[substr(line, 1, index(line, "\t") - 1)] = substr(line, index(line, "\t"))
	}
	/^test .* \.\.\. (ok|FAILED) <[0-9.]+s>$/ {
		print program "\t" $2 "\t" substr($NF, 2, length($NF) - 3) ($2 in cost ? cost[$2] : "\t\t\t")
	}' "$output" >> "$folder/tests.tsv"
exit "$status"
