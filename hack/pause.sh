#!/usr/bin/env bash
# Builds an image of Kubernetes' pause program, which holds a pod's namespaces, and which the examples run.
#
#   hack/pause.sh OUTPUT
set -euo pipefail
cd "$(dirname "$0")/.."

folder=$(dirname "$1")
mkdir -p "$folder"
source=$(hack/go-module.sh tests/controlplane k8s.io/kubernetes)
"${CC:-cc}" -Os -static -s -DVERSION=3.10 -o "$folder/pause" "$source/build/pause/linux/pause.c"
target/debug/xtask image --created 0 --program "$folder/pause" --reference registry.k8s.io/pause:3.10 --output "$1"
