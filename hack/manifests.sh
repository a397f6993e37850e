#!/usr/bin/env bash
# Renders the chart for `kubectl apply`, or for an API server's folder of policies, without what only Helm uses.
#
#   hack/manifests.sh install|protect|static/mutating/protect|static/validating/confine [CHART]
#
# `install` is everything except the policy that protects values across reboots, whose kind requires Kubernetes 1.36.
set -euo pipefail

protect=(--show-only templates/mutatingadmissionpolicy.yaml
	--api-versions admissionregistration.k8s.io/v1/MutatingAdmissionPolicy)
case $1 in
install) args=() ;;
protect | static/mutating/protect) args=("${protect[@]}") ;;
static/validating/confine) args=(--show-only 'templates/validatingadmissionpolicy*.yaml') ;;
esac
edits=(-e '/^ *app.kubernetes.io\/managed-by: /d' -e '/^ *helm.sh\/chart: /d' -e '/^# Source: /d')
# The API server accepts from files only names with this suffix, and through the API only names without it.
[[ $1 != static/* ]] || edits+=(-e 's/^\(  name\|  policyName\): .*/&.static.k8s.io/')
target/tools/bin/helm template node-resource-advertiser "${2:-charts/node-resource-advertiser}" \
	--namespace node-resource-advertiser --no-hooks --values deploy/values.yaml "${args[@]}" | sed "${edits[@]}"
