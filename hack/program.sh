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
host=$(rustc --version --verbose | sed -n 's/^host: //p')
target=$1
case $target in
host) target=$host ;;
test)
	# With the features of the tests' dependencies, which are then not recompiled, and with a separate folder
	# for the program, because tests run the one in target/debug meanwhile.
	CARGO_BUILD_BUILD_DIR=target cargo rustc --locked --target-dir target/static --bin "$program" \
		--features serde_json/unbounded_depth,tokio/process,tokio/rt-multi-thread,tokio/test-util \
		-- -C target-feature=+crt-static -C strip=symbols >&2
	echo "target/static/debug/$program"
	exit
	;;
esac

# What a linker for another platform is called, and Debian's packages that have it.
case $target in
"$host") linker=cc packages=() ;;
aarch64-unknown-linux-gnu) linker=aarch64-linux-gnu-gcc packages=(gcc-aarch64-linux-gnu libc6-dev-arm64-cross) ;;
x86_64-unknown-linux-gnu) linker=x86_64-linux-gnu-gcc packages=(gcc-x86-64-linux-gnu libc6-dev-amd64-cross) ;;
x86_64-pc-windows-gnu) linker=x86_64-w64-mingw32-gcc packages=(gcc-mingw-w64-x86-64) ;;
*)
	echo "the program cannot be built for $target on $host" >&2
	exit 2
	;;
esac
if ! command -v "$linker" > /dev/null; then
	if ((EUID != 0)) || ! command -v apt-get > /dev/null; then
		echo "there is no $linker: install it (on Debian: apt-get install ${packages[*]})" >&2
		exit 1
	fi
	{ apt-get update --quiet && apt-get install --quiet --yes --no-install-recommends "${packages[@]}"; } >&2
fi
if [[ $target != "$host" && ! -d $(rustc --print sysroot)/lib/rustlib/$target ]]; then
	rustup target add "$target" >&2
fi
cargo fetch --locked >&2
# Separated by a character that no path has: a space in a path would end a flag in RUSTFLAGS.
separator=$'\x1f'
flags=--remap-path-prefix=$PWD=/source
for registry in "${CARGO_HOME:-$HOME/.cargo}"/registry/src/*; do
	flags+=$separator--remap-path-prefix=$registry=/registry
done
file=target/$target/release/$program
case $target in
*-linux-*) flags+=$separator-C${separator}target-feature=+crt-static ;;
*-windows-*) file+=.exe ;;
esac
# Not with ${…^^}: macOS has bash 3.
variable=CARGO_TARGET_$(tr 'a-z-' 'A-Z_' <<< "$target")_LINKER
export "$variable=$linker" CARGO_ENCODED_RUSTFLAGS=$flags PATH=$PWD/target/tools/bin:$PATH
cargo auditable build --release --locked --target "$target" --bin "$program" >&2
echo "$file"
