#!/usr/bin/env bash
# Renders the chart for `kubectl apply`, without what only Helm uses.
#
#   hack/manifests.sh install|protect [CHART]
#
# `install` is everything except the policy that protects values across reboots, whose kind requires Kubernetes 1.36.
set -euo pipefail

case $1 in
install) args=() ;;
protect) args=(--show-only templates/mutatingadmissionpolicy.yaml
	--api-versions admissionregistration.k8s.io/v1/MutatingAdmissionPolicy) ;;
esac
target/tools/bin/helm template node-resource-advertiser "${2:-charts/node-resource-advertiser}" \
	--namespace node-resource-advertiser --no-hooks --values deploy/values.yaml "${args[@]}" |
	sed -e '/^ *app.kubernetes.io\/managed-by: /d' -e '/^ *helm.sh\/chart: /d' -e '/^# Source: /d'
