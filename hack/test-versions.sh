#!/usr/bin/env bash
# Builds older versions of Kubernetes, and runs all end-to-end tests on each, except those that are listed as skipped.
#
#   hack/test-versions.sh [MINOR…]     by default all of tests/kubernetes-*
#
# The tests on a real kubelet run on the oldest version only. etcd and everything that is no part of the control plane is
# that of `make controlplane`. tests/skipped-on-older-versions has the tests that a version cannot pass, with the reasons.
set -euo pipefail
cd "$(dirname "$0")/.."

programs=(kube-apiserver kube-controller-manager kube-scheduler kubelet kubemark)
minors=("$@")
oldest=$(printf '%s\n' tests/kubernetes-* | sort --version-sort | sed -n '1s/.*-//p')
if (($# == 0)); then
	for module in tests/kubernetes-*; do
		minors+=("${module#tests/kubernetes-}")
	done
fi
variable=k8s.io/component-base/version
for minor in "${minors[@]}"; do
	module=kubernetes-$minor
	version=$(sed -n 's/^require k8s.io\/kubernetes v\([^ ]*\).*/\1/p' "tests/$module/go.mod")
	folder=$PWD/target/$module
	hack/go-build.sh "$module" "target/$module" -ldflags "-s -w -X $variable.gitVersion=v$version \
		-X $variable.gitMajor=${minor%.*} -X $variable.gitMinor=${minor#*.}" -- "${programs[@]/#/k8s.io/kubernetes/cmd/}"
	for program in target/controlplane/bin/*; do
		if [[ ! -e $folder/$(basename "$program") ]]; then
			ln -s "$PWD/$program" "$folder/"
		fi
	done
	if [[ -n ${BUILD_ONLY:-} ]]; then
		continue
	fi
	skips=()
	while IFS=$'\t' read -r since name _; do
		if [[ $since == none ]] || ((${minor#*.} < ${since#*.})); then
			skips+=(--skip "$name")
		fi
	done < <(grep -v '^#' tests/skipped-on-older-versions)
	echo "==> Kubernetes $version"
	CONTROLPLANE_BIN=$folder cargo test --workspace --locked --test e2e -- "${skips[@]}"
	if [[ $minor == "$oldest" ]]; then
		CONTROLPLANE_BIN=$folder hack/isolated.sh kubelet cargo test --workspace --locked --test kubelet -- "${skips[@]}" ||
			(($? == 75))
	fi
done
