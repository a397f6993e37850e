#!/usr/bin/env bash
# Plants bugs one by one in a copy of the source tree, and reports which layer of tests finds each.
#
#   hack/mutants.sh [NAME…]     those of tests/mutants/ with these names; by default all
#
# The layers run from the most general to the most specific, and a bug counts for the first that finds it; with ALL=1
# every layer runs, which shows what a layer finds alone. LAYERS="units offline" selects layers and their order; e2e runs
# only if it is named. Fails if no layer finds a bug, if a patch no longer applies or compiles, or if a layer fails
# without any bug.
set -euo pipefail
cd "$(dirname "$0")/.."

# The tests of a layer, as cargo selects them, and their filters.
declare -A targets=(
	[exploration]='--lib' [simulation]='--lib' [program]='--lib' [units]='--lib'
	[offline]='--test offline --test fuzz'
	[e2e]='--test e2e'
)
declare -A filters=(
	[exploration]='exploration::'
	[simulation]='simulation::'
	[program]='shell:: worlds::'
	[units]='--skip exploration:: --skip simulation:: --skip shell:: --skip worlds::'
	[offline]=''
	# These need programs that `make test-gitops`, `make test-kyverno` and `make test-karpenter` build.
	[e2e]='--skip gitops:: --skip guard::kyverno:: --skip karpenter::'
)
read -r -a order <<< "${LAYERS:-exploration simulation program units offline}"
for layer in "${order[@]}"; do
	if [[ ! -v targets[$layer] ]]; then
		echo "LAYERS has $layer, which is none of ${!targets[*]}" >&2
		exit 2
	fi
done
# Seconds until a layer counts as one that does not end, by layer: far more than it takes without a bug.
declare -A limits=()

folder=target/mutants
tree=$folder/tree
results=$folder/results.tsv
rm -rf "$tree" "$folder/baseline"
mkdir -p "$tree/target" "$folder/target" "$folder/baseline"
# Tracked and new files, without build output. With new file times: after an interrupted run, cargo would otherwise
# reuse what it built with a bug.
git ls-files -z --cached --others --exclude-standard | tar --create --null --files-from=- | tar --extract --touch --directory="$tree"
# The programs that end-to-end tests start.
for programs in controlplane tools; do
	ln -s "$PWD/target/$programs" "$tree/target/$programs"
done
export CARGO_TARGET_DIR=$PWD/$folder/target
if [[ ! -e $CARGO_TARGET_DIR/debug && -e target/debug/deps ]]; then
	# Compiled dependencies; this workspace's own packages are compiled again for the paths of the copy.
	mkdir -p "$CARGO_TARGET_DIR/debug"
	cp --archive --reflink=auto target/debug/{.fingerprint,build,deps} "$CARGO_TARGET_DIR/debug/"
fi

# Builds the tests of a layer, and prints the path of each.
build() {
	local target log=$folder/build.log pattern
	# shellcheck disable=SC2086
	(cd "$tree" && cargo test --workspace --locked --no-run ${targets[$1]}) 2> "$log" || return 1
	for target in ${targets[$1]//--test/}; do
		pattern="tests\/(fuzz|$target\/main)\.rs \(.*\/$target-[0-9a-f]*\)"
		if [[ $target == --lib ]]; then
			pattern='unittests src\/lib\.rs \(.*\/node_resource_advertiser-[0-9a-f]*\)'
		fi
		grep --extended-regexp "^ *Executable $pattern$" "$log" | sed 's/.*(\(.*\))$/\1/'
	done
}

# The tests that run, in the background, where an interrupt does not reach them.
pid=
trap '[[ -z $pid ]] || kill "$pid" 2> /dev/null || true' EXIT
trap 'exit 130' INT TERM

# Runs tests of a layer, up to the first test that fails. Random worlds print their seed at the end of a run, which is
# awaited.
ask() {
	local binary=$1 layer=$2 log=$3 limit=$4
	# shellcheck disable=SC2086
	(cd "$tree" && exec timeout "$limit" "$binary" ${filters[$layer]}) > "$log" 2>&1 &
	pid=$!
	while kill -0 "$pid" 2> /dev/null; do
		if [[ $layer != simulation && $layer != program ]] && grep --quiet ' \.\.\. FAILED$' "$log"; then
			kill "$pid" 2> /dev/null || true
			wait "$pid" || true
			return 1
		fi
		sleep 0.2
	done
	wait "$pid"
}

# Prints the first seed and the tests that a failed run names, or how it ended.
evidence() {
	local seed tests found
	seed=$(grep -o -m 1 -E 'seed [0-9]+:' "$1" || true)
	tests=$(sed -n 's/^test \(.*\) \.\.\. FAILED$/\1/p' "$1" | head -2 | paste -s -d ' ')
	found=${seed%:}${seed:+ }$tests
	echo "${found:-it ends with $2}"
}

# Runs tests without a bug, and prints the limit for those with one: a busy machine must not make a bug count as found.
measure() {
	local binary=$1 layer=$2 log=$3 start=$SECONDS
	ask "$binary" "$layer" "$log" infinity || return
	echo $((10 * (SECONDS - start) + 60))
}

# Prints what a test program of a layer finds, if anything.
find_in() {
	local binary=$1 layer=$2 log=$3 name code=0
	name=$(basename "$binary")
	name=$layer-${name%-*}
	ask "$binary" "$layer" "$log" "${limits[$name]}" || code=$?
	if ((code == 124)); then
		# Perhaps the machine has become slower: the limit is measured again.
		code=0
		ask "$binary" "$layer" "$log" "$(measure "$folder/baseline/$name" "$layer" "$folder/again.log" || echo "${limits[$name]}")" || code=$?
		if ((code == 124)); then
			echo 'it does not end'
			return
		fi
	fi
	((code == 0)) || evidence "$log" "$code"
}

# Without a bug every layer must pass; otherwise a failure proves nothing.
check_baseline() {
	local binaries binary layer log name
	for layer in "${order[@]}"; do
		if ! binaries=$(build "$layer") || [[ -z $binaries ]]; then
			echo "without a bug it does not compile: see $folder/build.log" >&2
			return 1
		fi
		for binary in $binaries; do
			name=$(basename "$binary")
			name=$layer-${name%-*}
			log=$folder/baseline-$name.log
			cp --reflink=auto "$binary" "$folder/baseline/$name"
			if ! limits[$name]=$(measure "$PWD/$folder/baseline/$name" "$layer" "$log"); then
				echo "$layer fails without a bug: see $log" >&2
				return 1
			fi
		done
	done
}

# Prints what a layer finds, if anything.
ask_layer() {
	local layer=$1 name=$2 binaries binary what
	if ! binaries=$(build "$layer") || [[ -z $binaries ]]; then
		echo 'does not compile'
		return
	fi
	for binary in $binaries; do
		what=$(find_in "$binary" "$layer" "$folder/$name-$layer.log")
		if [[ -n $what ]]; then
			echo "$what"
			return
		fi
	done
}

run() {
	local name=$1 layer what found=()
	if ! patch --directory "$tree" --strip 1 --fuzz 0 --silent < "tests/mutants/$name.patch"; then
		echo "$name	does not apply	"
		return
	fi
	for layer in "${order[@]}"; do
		what=$(ask_layer "$layer" "$name")
		if [[ $what == 'does not compile' ]]; then
			found=("$what")
			break
		elif [[ -n $what ]]; then
			found+=("$layer:$what")
			[[ -n ${ALL:-} ]] || break
		fi
	done
	printf '%s\t%s\n' "$name" "${found[*]:-not found}"
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
for layer in "${order[@]}"; do
	by=$(grep --count "[	 ]$layer:" "$results" || true)
	others=$(printf '%s\n' "${order[@]}" | grep --invert-match --line-regexp "$layer" | paste -s -d '|')
	alone=$(grep "[	 ]$layer:" "$results" | grep --count --invert-match --extended-regexp "[	 ](${others:-none}):" || true)
	echo "$layer: $by${ALL:+, alone: $alone}"
done
found=$(grep --count --extended-regexp "	($(paste -s -d '|' < <(printf '%s\n' "${order[@]}"))):" "$results" || true)
echo "$found of ${#names[@]} planted bugs found"
((found == ${#names[@]}))
