#!/usr/bin/env bash
# Prints the linker for a target of Rust. Installs it if it is missing, as root on Debian.
#
#   hack/linker.sh TARGET
set -euo pipefail
cd "$(dirname "$0")/.."

target=$1
host=$(uname -s)-$(uname -m)
case $host-$target in
# Apple's linker is for both architectures.
Darwin-*-apple-darwin | Linux-x86_64-x86_64-unknown-linux-gnu | Linux-aarch64-aarch64-unknown-linux-gnu)
	linker=cc packages=(gcc)
	;;
*-aarch64-unknown-linux-gnu) linker=aarch64-linux-gnu-gcc packages=(gcc-aarch64-linux-gnu libc6-dev-arm64-cross) ;;
*-x86_64-unknown-linux-gnu) linker=x86_64-linux-gnu-gcc packages=(gcc-x86-64-linux-gnu libc6-dev-amd64-cross) ;;
*-x86_64-pc-windows-gnu) linker=x86_64-w64-mingw32-gcc packages=(gcc-mingw-w64-x86-64) ;;
*)
	echo "the program cannot be built for $target on $host" >&2
	exit 2
	;;
esac
hack/require.sh "$linker" "${packages[@]}"
echo "$linker"
