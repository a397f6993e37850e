#!/usr/bin/env bash
# Runs a task of xtask/, with the time of the commit as the timestamp of what it writes. XTASK names the program where
# it has been built.
set -euo pipefail
cd "$(dirname "$0")/.."

export SOURCE_DATE_EPOCH=${SOURCE_DATE_EPOCH:-$(git log -1 --format=%ct)}
if [[ -n ${XTASK:-} ]]; then
	exec "$XTASK" "$@"
fi
exec cargo run --quiet --locked --package xtask -- "$@"
