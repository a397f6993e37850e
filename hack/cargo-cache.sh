#!/usr/bin/env bash
# Keeps compiled dependencies in the build cache, for other checkouts: nothing without BUILD_CACHE.
#
#   hack/cargo-cache.sh restore|save
#
# This workspace's own packages are not kept: cargo goes by the times of their files, which a checkout
# does not keep, so they are always compiled. What is kept comes from a registry, where a version never
# changes; and cargo compares versions, features, flags and the compiler once more.
set -euo pipefail

if [[ -z ${BUILD_CACHE:-} ]]; then
	exit 0
fi
cd "$(dirname "$0")/.."
key=$({
	rustc --version --verbose
	env | grep -E '^(CARGO_(BUILD|ENCODED|INCREMENTAL|PROFILE|TARGET)|RUSTFLAGS)' | sort || true
	git ls-files -z -- hack/cargo-cache.sh Cargo.lock Cargo.toml '*/Cargo.toml' | xargs -0 sha256sum
} | sha256sum | cut -c 1-32)
cached=$BUILD_CACHE/cargo/debug-$key

case $1 in
restore)
	if [[ -d $cached && ! -e target/debug ]]; then
		touch "$cached"
		mkdir -p target
		stage=$(mktemp -d target/.debug.XXXXXX)
		trap 'rm -rf "$stage"' EXIT
		cp --archive "$cached"/. "$stage"
		mv --no-target-directory "$stage" target/debug
	fi
	;;
save)
	if [[ ! -d $cached ]]; then
		stage=$(mktemp -d target/.debug.XXXXXX)
		trap 'rm -rf "$stage"' EXIT
		own=$(cargo metadata --locked --no-deps --format-version 1 | grep -o '"name":"[^"]*","version"' | cut -d '"' -f 4)
		# By the hash that cargo gives each unit, which its files have in their names.
		for name in $own; do
			printf '%s\n' target/debug/.fingerprint/"$name"-*
		done | sed 's/.*-/*-/; s/$/*/' > "$stage.exclude"
		# Under cargo's own lock: another cargo in this checkout must not change files meanwhile.
		flock target/debug/.cargo-lock \
			tar --create --directory target/debug --exclude-from "$stage.exclude" .fingerprint build deps |
			tar --extract --directory "$stage"
		rm "$stage.exclude"
		hack/keep.sh "$stage" "$cached"
	fi
	;;
esac
