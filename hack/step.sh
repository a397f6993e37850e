#!/usr/bin/env bash
# Runs one step of the build, and reports its result and how long it took.
#
#   hack/step.sh NAME COMMAND [ARGUMENT…]
#
# A command that ends with status 75 did not run, and its last line says why: `skipped: …`. That is no failure.
#
# A step alone prints as it goes. Under hack/steps.sh, where steps overlap, STEPS names the folder of their logs: the
# output goes there, and to the terminal too if the step fails.
set -euo pipefail
# Decimal points in every locale.
export LC_ALL=C.UTF-8

name=$1
shift
TIMEFORMAT='%R %U %S'
status=0
if [[ -z ${STEPS:-} ]]; then
	echo "==> $name"
	"$@" || status=$?
	((status == 75)) && exit 0
	exit "$status"
fi
log=$STEPS/$name.log
times=$STEPS/$name.times
echo "==> $name begins: $log"
touch "$STEPS/$name.running"
{ time "$@" > "$log" 2>&1; } 2> "$times" || status=$?
read -r wall user system < "$times"
cpu=$(awk "BEGIN { print $user + $system }")
result=failed
reason=
case $status in
0) result=passed ;;
75)
	result=skipped
	reason=$(sed -n 's/^skipped: //p' "$log" | tail -1)
	;;
esac
printf '%s\t%s\t%s\t%s\t%s\n' "$name" "$result" "$wall" "$cpu" "$reason" >> "$STEPS.tsv"
rm "$times" "$STEPS/$name.running"
if [[ $result != failed ]]; then
	printf '==> %s: %s after %.0f s (CPU %.0f s)\n' "$name" "$result" "$wall" "$cpu"
	# Checks that were skipped, and warnings of the build cache.
	grep -h -e '^skipped: ' -e '^warning: the build cache: ' "$log" || true
	exit 0
fi
# In one write if possible, because other steps print meanwhile.
printf '%s\n==> %s: FAILED after %.0f s, with status %d\n' "$(cat "$log")" "$name" "$wall" "$status" >&2
exit "$status"
