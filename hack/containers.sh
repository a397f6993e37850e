#!/usr/bin/env bash
# Builds the container runtime of the node of `make test-cluster` into target/containers/bin/.
set -euo pipefail
cd "$(dirname "$0")/.."

bin=target/containers/bin
hack/go-build.sh containers "$bin" -tags no_btrfs,no_devmapper,no_zfs -- \
	github.com/containerd/containerd/v2/cmd/{containerd,containerd-shim-runc-v2,ctr} \
	github.com/containernetworking/plugins/plugins/{ipam/host-local,main/loopback,main/ptp} \
	./withoutseccomp
# Built with libseccomp's headers, runc applies seccomp profiles; without them, it rejects containers that have one.
runtime=withoutseccomp
tags=()
if "${CC:-cc}" -E -x c -include seccomp.h /dev/null > /dev/null 2>&1; then
	runtime=runc
	tags=(-tags seccomp)
fi
CGO_ENABLED=1 hack/go-build.sh containers "$bin" "${tags[@]}" -- github.com/opencontainers/runc
# What containerd starts: runc, or a wrapper that removes the seccomp profiles that runc would reject.
cmp --silent "$bin/$runtime" "$bin/runtime" || cp "$bin/$runtime" "$bin/runtime"
