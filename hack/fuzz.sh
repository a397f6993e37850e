#!/usr/bin/env bash
# Fuzzes targets with libFuzzer, guided by coverage, for this number of minutes each: see tests/fuzz/src/lib.rs.
#
#   hack/fuzz.sh MINUTES [TARGET…]
#
# New inputs are kept in target/fuzz/corpus/ for the next run. Failing inputs are kept in target/fuzz/failures/:
# `cargo run -p fuzz TARGET FILE` reproduces the failure, and libFuzzer's -minimize_crash=1 shortens the input. Fix the
# program, and add the input to tests/fuzz/corpus/.
set -euo pipefail
cd "$(dirname "$0")/.."

command -v c++ > /dev/null || { echo 'error: no C++ compiler: libFuzzer is written in C++' >&2; exit 1; }
seconds=$(($1 * 60))
shift
if (($# == 0)); then
	# One after another, so that their output is not interleaved.
	mapfile -t names < <(cargo run --package fuzz --locked --quiet)
	set -- "${names[@]}"
fi

# The flags of cargo-fuzz, without a sanitizer, which needs a nightly compiler: no code here is unsafe. With overflow
# checks and debug assertions, which the fuzzer should trigger.
flags=(--cfg fuzzing -C passes=sancov-module -C codegen-units=1 -C debug-assertions -C overflow-checks)
for flag in level=4 inline-8bit-counters pc-table trace-compares; do
	flags+=(-C "llvm-args=-sanitizer-coverage-$flag")
done
host=$(rustc --print host-tuple)
# With --target, build scripts and macros are compiled without these flags.
RUSTFLAGS="${flags[*]}" CARGO_PROFILE_RELEASE_LTO=off CARGO_PROFILE_RELEASE_STRIP=none \
	cargo build --package fuzz --bin fuzz --locked --release --target "$host" --target-dir target/fuzz/build

status=0
for name in "$@"; do
	learned=target/fuzz/corpus/$name
	failures=target/fuzz/failures/$name
	mkdir -p "$learned" "$failures"
	dictionary=()
	if [[ $name == manifest* ]]; then
		dictionary=(-dict=tests/fuzz/yaml.dict)
	fi
	echo "==> $name"
	FUZZ_TARGET=$name "target/fuzz/build/$host/release/fuzz" -max_total_time="$seconds" -max_len=4096 -timeout=10 \
		-rss_limit_mb=2048 -print_final_stats=1 -artifact_prefix="$failures/" "${dictionary[@]}" "$learned" \
		"tests/fuzz/corpus/${name%-oracle}" || status=$?
done
exit "$status"
