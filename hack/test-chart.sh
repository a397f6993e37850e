#!/usr/bin/env bash
# Tests of the charts that need no cluster.
set -euo pipefail

main=charts/node-resource-advertiser
charts=("$main" charts/node-resource-advertiser-rules)
tools=target/tools/bin
helms=("$tools/helm" target/tools/helm3/helm)

echo '==> helm lint'
for chart in "${charts[@]}"; do
	for values in "$chart"/ci/*.yaml; do
		for helm in "${helms[@]}"; do
			"$helm" lint --strict --quiet --values "$values" "$chart"
		done
	done
done

echo '==> an unsupported version of Kubernetes'
for helm in "${helms[@]}"; do
	if output=$("$helm" template "$main" --kube-version 1.29.9 2>&1); then
		echo 'the chart renders for Kubernetes 1.29.9'
		exit 1
	fi
	grep 'requires kubeVersion' <<< "$output"
done

echo '==> helm-unittest'
"$tools/helm-unittest" --strict "${charts[@]}"

echo '==> generated files'
for chart in "${charts[@]}"; do
	(cd tests/tools && go run ./valuestable --check "$OLDPWD/$chart")
done
(cd tests/tools && go run ./ruleschema --check "$OLDPWD" && go run ./apireference --check "$OLDPWD")
for path in deploy/{install,protect}.yaml deploy/static/*/*.yaml; do
	name=${path#deploy/}
	if ! diff -u "$path" <(hack/manifests.sh "${name%.yaml}"); then
		echo "$path is not what the chart renders: run \`make manifests\`"
		exit 1
	fi
done

echo '==> rendering by installation tools'
(cd tests/tools && go test -vet=off -count=1 -timeout=30m ./installs)
