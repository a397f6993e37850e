#!/usr/bin/env bash
# Runs a command for the tests on a real kubelet or a real cluster, if this machine supports them. If it does not, prints
# `skipped: …` and ends with status 75, or fails with REQUIRE_ISOLATION=1.
#
#   hack/isolated.sh kubelet|cluster COMMAND [ARGUMENT…]
#
# SKIP_ISOLATED names those that are skipped in any case: SKIP_ISOLATED='kubelet cluster'.
set -euo pipefail

if [[ " ${SKIP_ISOLATED:-} " == *" $1 "* ]]; then
	echo "skipped: SKIP_ISOLATED names $1"
	exit 75
fi
case $1 in
kubelet)
	unshare=(unshare --mount --propagation private)
	probe='mount --bind /tmp /var/lib'
	needs='root on Linux, mount namespaces, and a checkout that is not in /var/lib'
	;;
cluster)
	unshare=(unshare --mount --net --pid --fork --mount-proc --propagation private)
	probe='mount --bind /tmp /var/lib && mount -t tmpfs tmpfs /run &&
		ip link add name node0 type veth peer name outside0'
	needs='root on Linux, iproute2, mount, network and process namespaces, and a checkout that is not in /var/lib or /run'
	;;
esac
probe+=' && { test -e "$0/Makefile" || { echo "$0 is hidden by the mounts" >&2; exit 1; }; }'
if ! problem=$("${unshare[@]}" sh -c "$probe" "$PWD" 2>&1); then
	problem="no isolation here: ${problem//$'\n'/; } (the tests on a real $1 need $needs)"
	if [[ -n ${REQUIRE_ISOLATION:-} ]]; then
		echo "$problem; SKIP_ISOLATED=$1 skips them" >&2
		exit 1
	fi
	# One line, which hack/step.sh prints again.
	echo "skipped: $problem"
	exit 75
fi
shift
exec "$@"
