#!/usr/bin/env bash
# Stores compiled dependencies in the build cache for other checkouts; does nothing without BUILD_CACHE. On failure,
# such as a full disk, it warns, and the build continues.
#
#   hack/cargo-cache.sh restore|save
#
# This workspace's own packages are not stored: cargo compares the times of their files, which a checkout does not
# preserve, so they are always compiled. Stored packages come from a registry, where a version never changes; and
# cargo itself compares versions, features, flags and the compiler.
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
cached=cargo/debug-$key

clean_up() {
	local status=$?
	rm -rf "$stage" "$stage.exclude"
	if ((status)); then
		echo "warning: the build cache: compiled dependencies: $1 failed with $status" >&2
	fi
	exit 0
}
stage=
trap 'clean_up "$1"' EXIT
mkdir -p target
stage=$(mktemp -d target/.debug.XXXXXX)
case $1 in
restore)
	if [[ ! -e target/debug ]] && hack/cache.sh restore "$cached" "$stage"; then
		mv --no-target-directory "$stage" target/debug
	fi
	;;
save)
	if [[ ! -d $BUILD_CACHE/$cached ]]; then
		own=$(cargo metadata --locked --no-deps --format-version 1 | grep -o '"name":"[^"]*","version"' | cut -d '"' -f 4)
		# By cargo's hash of each unit, which is in its file names.
		for name in $own; do
			printf '%s\n' target/debug/.fingerprint/"$name"-*
		done | sed 's/.*-/*-/; s/$/*/' > "$stage.exclude"
		# Under cargo's own lock, so that no other cargo in this checkout changes files meanwhile.
		flock target/debug/.cargo-lock \
			tar --create --directory target/debug --exclude-from "$stage.exclude" .fingerprint build deps |
			tar --extract --directory "$stage"
		hack/cache.sh save "$stage" "$cached"
	fi
	;;
esac
