#!/usr/bin/env bash
# Plants bugs one by one in a copy of the source tree, and reports which layer of tests finds each.
#
#   hack/mutants.sh [NAME…]     those of tests/mutants/ with these names; by default all
#
# The layers run from the most general to the most specific, and a bug counts for the first that finds it; with ALL=1
# every layer runs. Fails if no layer finds a bug, if a patch no longer applies or compiles, or if a layer fails without
# any bug.
set -euo pipefail
cd "$(dirname "$0")/.."

# A layer and the filters of its tests in the library.
declare -A layers=(
	[exploration]='exploration::'
	[simulation]='simulation::'
	[program]='shell:: worlds::'
	[units]='--skip exploration:: --skip simulation:: --skip shell:: --skip worlds::'
)
order=(exploration simulation program units)
# A bug may also make a test run forever: this counts if it happens twice.
limit=300

folder=target/mutants
tree=$folder/tree
results=$folder/results.tsv
rm -rf "$tree"
mkdir -p "$tree"
# Tracked and new files, without build output. With new file times: after an interrupted run, cargo would otherwise
# reuse what it built with a bug.
git ls-files -z --cached --others --exclude-standard | tar --create --null --files-from=- | tar --extract --touch --directory="$tree"
export CARGO_TARGET_DIR=$PWD/$folder/target CARGO_PROFILE_DEV_DEBUG=0

build() {
	(cd "$tree" && cargo test --locked --lib --no-run --package node-resource-advertiser) 2> "$folder/build.log" || return 1
	sed -n 's/^ *Executable unittests src\/lib.rs (\(.*\))$/\1/p' "$folder/build.log" | tail -1
}

# The tests that run, in the background, where an interrupt does not reach them.
pid=
trap '[[ -z $pid ]] || kill "$pid" 2> /dev/null || true' EXIT
trap 'exit 130' INT TERM

# Runs a layer of the tests that have been built, up to the first test that fails. Random worlds print their seed at the
# end of a run, which is awaited.
ask() {
	local binary=$1 layer=$2 log=$3
	: > "$log"
	# shellcheck disable=SC2086
	(cd "$tree" && exec timeout "$limit" "$binary" ${layers[$layer]}) > "$log" 2>&1 &
	pid=$!
	while kill -0 "$pid" 2> /dev/null; do
		if [[ $layer != simulation && $layer != program ]] && grep --quiet ' \.\.\. FAILED$' "$log"; then
			kill "$pid" 2> /dev/null || true
			wait "$pid" || true
			return 1
		fi
		sleep 0.5
	done
	wait "$pid"
}

# Prints the first seed and the tests that a failed run names, or nothing.
evidence() {
	local seed tests
	seed=$(grep -o -m 1 -E 'seed [0-9]+:' "$1" || true)
	tests=$(sed -n 's/^test \(.*\) \.\.\. FAILED$/\1/p' "$1" | head -2 | paste -s -d ' ')
	echo "${seed%:}${seed:+ }$tests"
}

# Prints what a layer finds, if anything.
find_in() {
	local binary=$1 layer=$2 log=$3 code=0
	ask "$binary" "$layer" "$log" || code=$?
	if ((code == 124)); then
		code=0
		ask "$binary" "$layer" "$log" || code=$?
		if ((code == 124)); then
			echo 'it does not end'
			return
		fi
	fi
	((code == 0)) || evidence "$log"
}

# Without a bug every layer must pass; otherwise a failure proves nothing.
check_baseline() {
	local binary layer log
	if ! binary=$(build) || [[ -z $binary ]]; then
		echo "without a bug it does not compile: see $folder/build.log" >&2
		return 1
	fi
	for layer in "${order[@]}"; do
		log=$folder/baseline-$layer.log
		if ! ask "$binary" "$layer" "$log"; then
			echo "$layer fails without a bug: see $log" >&2
			return 1
		fi
	done
}

run() {
	local name=$1 layer binary what found=()
	if ! patch --directory "$tree" --strip 1 --silent < "tests/mutants/$name.patch"; then
		echo "$name	does not apply	"
		return
	fi
	if ! binary=$(build) || [[ -z $binary ]]; then
		echo "$name	does not compile	"
	else
		for layer in "${order[@]}"; do
			what=$(find_in "$binary" "$layer" "$folder/$name-$layer.log")
			if [[ -n $what ]]; then
				found+=("$layer:$what")
				[[ -n ${ALL:-} ]] || break
			fi
		done
		printf '%s\t%s\n' "$name" "${found[*]:-not found}"
	fi
	patch --directory "$tree" --strip 1 --silent --reverse < "tests/mutants/$name.patch"
}

check_baseline
names=("$@")
if ((${#names[@]} == 0)); then
	for patch in tests/mutants/*.patch; do
		names+=("$(basename "$patch" .patch)")
	done
fi
: > "$results"
for name in "${names[@]}"; do
	run "$name" | tee -a "$results"
done
found=$(grep --count --extended-regexp '	(exploration|simulation|program|units):' "$results" || true)
echo "$found of ${#names[@]} planted bugs found"
((found == ${#names[@]}))
