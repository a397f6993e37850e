#!/usr/bin/env bash
# Runs the tests on a real one-node cluster.
#
#   hack/test-cluster.sh IMAGE PAUSE-IMAGE [TEST…]     IMAGE is in a folder that `make release` has written
set -euo pipefail

export IMAGE=$PWD/$1 DIST=$PWD/${1%/*} PAUSE_IMAGE=$PWD/$2 SECCOMP=''
bin=target/containers/bin
if cmp --silent "$bin/runc" "$bin/runtime"; then
	SECCOMP=1
else
	echo "skipped: seccomp filters, which runc has only if it is built with libseccomp's headers"
fi
# One by one: a test compares the machine's state before and after.
exec cargo test --workspace --locked --test cluster -- --show-output --test-threads=1 "${@:3}"
