#!/usr/bin/env bash
# Fuzzes targets with libFuzzer, guided by coverage, for so many minutes each: see tests/fuzz/src/lib.rs.
#
#   hack/fuzz.sh MINUTES [TARGET…]
#
# What it learns stays in target/fuzz/corpus/, for the next time. What fails is left in target/fuzz/failures/:
# `cargo run -p fuzz TARGET FILE` fails likewise, and -minimize_crash=1 has libFuzzer shorten it. Add it to
# tests/fuzz/corpus/, and correct the program.
set -euo pipefail
cd "$(dirname "$0")/.."

command -v c++ > /dev/null || { echo 'error: no C++ compiler: libFuzzer is written in C++' >&2; exit 1; }
seconds=$(($1 * 60))
shift
if (($# == 0)); then
	# One after the other, so that a line of the output is of one.
	mapfile -t names < <(cargo run --package fuzz --locked --quiet)
	set -- "${names[@]}"
fi

# What cargo-fuzz passes, with no sanitizer, which takes a nightly compiler: no code here is unsafe. Overflow and
# debug assertions are what it is to find.
flags=(--cfg fuzzing -C passes=sancov-module -C codegen-units=1 -C debug-assertions -C overflow-checks)
for flag in level=4 inline-8bit-counters pc-table trace-compares; do
	flags+=(-C "llvm-args=-sanitizer-coverage-$flag")
done
host=$(rustc --version --verbose | sed -n 's/^host: //p')
# With --target, build scripts and macros are compiled without these flags.
RUSTFLAGS="${flags[*]}" CARGO_PROFILE_RELEASE_LTO=off CARGO_PROFILE_RELEASE_STRIP=none \
	cargo build --package fuzz --bin fuzz --locked --release --target "$host" --target-dir target/fuzz/build

status=0
for name in "$@"; do
	learned=target/fuzz/corpus/$name
	failures=target/fuzz/failures/$name
	mkdir -p "$learned" "$failures"
	echo "==> $name"
	FUZZ_TARGET=$name "target/fuzz/build/$host/release/fuzz" -max_total_time="$seconds" -max_len=4096 -timeout=10 \
		-rss_limit_mb=2048 -print_final_stats=1 -artifact_prefix="$failures/" "$learned" \
		"tests/fuzz/corpus/${name%-oracle}" || status=$?
done
exit "$status"
