#!/usr/bin/env bash
# Runs end-to-end tests with the program for arm64, under emulation if this machine is another.
#
#   hack/test-arm64.sh [TEST…]
set -euo pipefail
cd "$(dirname "$0")/.."

program=$PWD/$(hack/program.sh aarch64-unknown-linux-gnu)
if [[ $(uname -m) != aarch64 ]]; then
	hack/require.sh qemu-aarch64 qemu-user
	mkdir -p target/arm64
	printf '#!/bin/sh\nexec qemu-aarch64 %q "$@"\n' "$program" > target/arm64/node-resource-advertiser
	chmod +x target/arm64/node-resource-advertiser
	program=$PWD/target/arm64/node-resource-advertiser
fi
"$program" --version
PROGRAM_UNDER_TEST=$program exec cargo test --workspace --locked --test e2e -- "$@"
