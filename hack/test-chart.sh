#!/usr/bin/env bash
# Tests of the chart that need no cluster.
set -euo pipefail

chart=charts/node-resource-advertiser
tools=target/tools/bin

echo '==> helm lint'
for values in "$chart"/ci/*.yaml; do
	"$tools/helm" lint --strict --quiet --values "$values" "$chart"
done

echo '==> a Kubernetes that is too old'
if output=$("$tools/helm" template "$chart" --kube-version 1.29.9 2>&1); then
	echo 'the chart renders for Kubernetes 1.29.9'
	exit 1
fi
grep 'requires kubeVersion' <<< "$output"

echo '==> helm-unittest'
"$tools/helm-unittest" --strict "$chart"

echo '==> what is generated from the chart'
(cd tests/tools && go run ./valuestable --check "$OLDPWD/$chart")
for name in install protect; do
	if ! diff -u "deploy/$name.yaml" <(hack/manifests.sh "$name"); then
		echo "deploy/$name.yaml is not what the chart renders: run \`make manifests\`"
		exit 1
	fi
done
