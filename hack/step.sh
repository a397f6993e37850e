#!/usr/bin/env bash
# Runs one step of the build, and reports how long it took.
#
#   hack/step.sh NAME COMMAND [ARGUMENT…]
#
# A step alone prints as it goes. Under hack/steps.sh, where steps overlap, STEPS names the folder
# of their logs: the output goes there, and to the terminal too if the step fails.
set -euo pipefail
# Decimal points in every locale.
export LC_ALL=C.UTF-8

name=$1
shift
TIMEFORMAT='%R %U %S'
if [[ -z ${STEPS:-} ]]; then
	echo "==> $name"
	exec "$@"
fi
log=$STEPS/$name.log
times=$STEPS/$name.times
echo "==> $name begins: $log"
status=0
{ time "$@" > "$log" 2>&1; } 2> "$times" || status=$?
read -r wall user system < "$times"
rm "$times"
cpu=$(awk "BEGIN { print $user + $system }")
printf '%s\t%s\t%s\t%s\n' "$name" "$status" "$wall" "$cpu" >> "$STEPS.tsv"
if ((status == 0)); then
	printf '==> %s: passed after %.0f s (CPU %.0f s)\n' "$name" "$wall" "$cpu"
	# Checks that were skipped, and warnings of the build cache.
	grep -h -e '^skipped: ' -e '^warning: the build cache: ' "$log" || true
	exit 0
fi
# In one write if possible, because other steps print meanwhile.
printf '%s\n==> %s: FAILED after %.0f s, with status %d\n' "$(cat "$log")" "$name" "$wall" "$status" >&2
exit "$status"
