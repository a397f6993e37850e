#!/usr/bin/env bash
# Runs a command that measures, and prints its result in the form of docs/verification.md. With RECORD=1, writes it there
# too, with the date and the commit, if the command passes.
#
#   hack/measured.sh NAME COMMAND [ARGUMENT…]     the page has `<!-- measured: NAME -->` behind the result
set -euo pipefail
cd "$(dirname "$0")/.."
export LC_ALL=C.UTF-8

name=$1
shift
page=docs/verification.md
if ! grep --quiet "<!-- measured: $name -->" "$page"; then
	echo "$page has no place for $name" >&2
	exit 2
fi
mkdir -p target/measured
log=target/measured/$name.log
"$@" 2>&1 | tee "$log"

# Prints the result from the lines of a log, with separators of thousands.
result() {
	case $1 in
	explore) awk '/^explored / { states += $2; transitions += $4; runs++ }
		END { if (runs) print states " states, " transitions " transitions, 0 violations" }' ;;
	simulate) sed -nE 's/^([0-9]+ seeds, [0-9]+ steps, [0-9]+ writes, [0-9]+ faults), .*: (0 violations)$/\1, \2/p' ;;
	conformance) sed -nE 's/^([0-9]+) operations \(([0-9]+) kinds; ([0-9]+) % succeed\).*, (0 differences)$/\1 operations of \2 kinds, \3 % successful, \4/p' ;;
	fuzz) awk '/^==> / { targets++ } /^stat::number_of_executed_units:/ { runs += $2 }
		END { if (runs) print runs " runs of " targets " targets, no open failure" }' ;;
	mutants) sed -nE 's/^([0-9]+) of ([0-9]+) planted bugs found$/\1 of \2 found/p' ;;
	esac | sed -E ':again; s/([0-9])([0-9]{3})($|[^0-9])/\1,\2\3/; t again'
}
text=$(result "${name%%-*}" < "$log")
if [[ -z $text ]]; then
	echo "$name printed no result: see $log" >&2
	exit 1
fi
commit=$(git rev-parse --short HEAD)
git diff --quiet HEAD -- . ":!$page" || commit+=' and changes'
echo "measured: $text ($(date --utc +%F), $commit)"
if [[ -n ${RECORD:-} ]]; then
	sed -i -E "s#\| [^|]* <!-- measured: $name -->#| $text ($(date --utc +%F), $commit) <!-- measured: $name -->#" "$page"
fi
