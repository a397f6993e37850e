#!/usr/bin/env bash
# Renders the chart as `kubectl apply` takes it, without what only Helm uses.
set -euo pipefail

target/tools/bin/helm template node-resource-advertiser charts/node-resource-advertiser \
	--namespace node-resource-advertiser --no-hooks --values deploy/values.yaml |
	sed -e '/^ *app.kubernetes.io\/managed-by: /d' -e '/^ *helm.sh\/chart: /d' -e '/^# Source: /d'
