#!/usr/bin/env bash
# Builds the program, static on Linux, and prints its path.
#
#   hack/program.sh TARGET     as a release publishes it, for a target of Rust such as aarch64-unknown-linux-gnu
#   hack/program.sh host       the same for this machine
#   hack/program.sh test       as tests build it, for this machine, without optimization
#
# A released program contains the list of its crates (`cargo audit bin` reads it), and names no path of this machine:
# the same commit gives the same program elsewhere. Its C library is glibc, whose allocator is faster here; name
# resolution loads no library at run time.
set -euo pipefail
cd "$(dirname "$0")/.."

program=node-resource-advertiser
host=$(rustc --print host-tuple)
target=$1
case $target in
host) target=$host ;;
test)
	# With the features and the environment of the tests' dependencies, which are then not recompiled: build scripts
	# of C libraries run again when this variable changes. And with a separate folder for the program, because tests
	# run the one in target/debug meanwhile.
	unset SOURCE_DATE_EPOCH
	CARGO_BUILD_BUILD_DIR=target cargo rustc --locked --target-dir target/static --bin "$program" \
		--features serde_json/unbounded_depth,tokio/process,tokio/rt-multi-thread,tokio/test-util \
		-- -C target-feature=+crt-static -C strip=symbols >&2
	echo "target/static/debug/$program"
	exit
	;;
esac

linker=$(hack/linker.sh "$target")
if [[ $target != "$host" && ! -d $(rustc --print sysroot)/lib/rustlib/$target ]]; then
	rustup target add "$target" >&2
fi
# Variables that would give another program, or put it elsewhere, where an older one is then taken for it.
unset RUSTFLAGS RUSTUP_TOOLCHAIN CARGO_TARGET_DIR CARGO_BUILD_TARGET_DIR CARGO_BUILD_BUILD_DIR CC CFLAGS
unset "${!CARGO_PROFILE_@}"
cargo fetch --locked >&2
# Separated by a character that no path has: a space in a path would end a flag in RUSTFLAGS.
separator=$'\x1f'
flags=--remap-path-prefix=$PWD=/source
# As without the component rust-src.
commit=$(rustc --verbose --version | sed -n 's/^commit-hash: //p')
flags+=$separator--remap-path-prefix=$(rustc --print sysroot)/lib/rustlib/src/rust=/rustc/$commit
for registry in "${CARGO_HOME:-$HOME/.cargo}"/registry/src/*; do
	flags+=$separator--remap-path-prefix=$registry=/registry
done
file=target/$target/release/$program
case $target in
*-linux-*) flags+=$separator-C${separator}target-feature=+crt-static ;;
*-windows-*) file+=.exe ;;
esac
# The linker for Windows writes the time into a program otherwise.
SOURCE_DATE_EPOCH=${SOURCE_DATE_EPOCH:-$(git log -1 --format=%ct)}
# Not with ${…^^}: macOS has bash 3.
variable=CARGO_TARGET_$(tr 'a-z-' 'A-Z_' <<< "$target")_LINKER
export SOURCE_DATE_EPOCH "$variable=$linker" CARGO_ENCODED_RUSTFLAGS=$flags PATH=$PWD/target/tools/bin:$PATH
CARGO=$PWD/hack/cargo-by-name.sh cargo-auditable auditable build --release --locked \
	--target "$target" --target-dir "$PWD/target" --bin "$program" >&2
echo "$file"
