#!/usr/bin/env bash
# Runs a command for the tests on a real kubelet or on a real cluster, where this machine can run those.
#
#   hack/isolated.sh kubelet|cluster COMMAND [ARGUMENT…]
set -euo pipefail

case $1 in
kubelet)
	unshare=(unshare --mount --propagation private)
	probe='mount --bind /tmp /var/lib && test -e "$0/Makefile"'
	needs='root on Linux, mount namespaces, and a checkout that is not in /var/lib'
	;;
cluster)
	unshare=(unshare --mount --net --pid --fork --mount-proc --propagation private)
	probe='mount --bind /tmp /var/lib && mount -t tmpfs tmpfs /run &&
		ip link add name node0 type veth peer name outside0 && test -e "$0/Makefile"'
	needs='root on Linux, iproute2, mount, network and process namespaces, and a checkout that is not in /var/lib or /run'
	;;
esac
if ! "${unshare[@]}" sh -c "$probe" "$PWD" 2> /dev/null; then
	echo "skipped: the tests on a real $1 need $needs"
	exit 0
fi
shift
exec "$@"
