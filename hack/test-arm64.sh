#!/usr/bin/env bash
# Runs end-to-end tests with the program for arm64, under emulation if this machine is another.
#
#   hack/test-arm64.sh [TEST…]
set -euo pipefail
cd "$(dirname "$0")/.."

program=$PWD/$(hack/program.sh aarch64-unknown-linux-gnu)
if [[ $(uname -m) != aarch64 ]]; then
	if ! command -v qemu-aarch64 > /dev/null; then
		if ((EUID != 0)) || ! command -v apt-get > /dev/null; then
			echo 'there is no qemu-aarch64: install it (on Debian: apt-get install qemu-user)' >&2
			exit 1
		fi
		apt-get update --quiet
		apt-get install --quiet --yes --no-install-recommends qemu-user
	fi
	mkdir -p target/arm64
	printf '#!/bin/sh\nexec qemu-aarch64 %q "$@"\n' "$program" > target/arm64/node-resource-advertiser
	chmod +x target/arm64/node-resource-advertiser
	program=$PWD/target/arm64/node-resource-advertiser
fi
"$program" --version
PROGRAM_UNDER_TEST=$program exec cargo test --workspace --locked --test e2e -- "$@"
