#!/usr/bin/env bash
# Compiles the tests and the programs that they run.
set -euo pipefail

cargo test --workspace --locked --no-run
hack/cargo-cache.sh save
