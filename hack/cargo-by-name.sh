#!/usr/bin/env bash
# Cargo for cargo-auditable, which makes itself the wrapper of the compiler by its path. Cargo hashes that path into the
# names of this project's symbols, so that another folder would give another program; it does not if it finds the
# wrapper by name.
#
#   CARGO=hack/cargo-by-name.sh cargo-auditable auditable build …
set -euo pipefail

exec env RUSTC_WORKSPACE_WRAPPER=cargo-auditable cargo "$@"
