#!/usr/bin/env bash
# Runs end-to-end tests again and again while other programs keep every core busy, until one fails.
#
#   hack/test-repeat.sh COUNT FILTER…     filters are parts of tests' names, as for cargo test
set -euo pipefail
cd "$(dirname "$0")/.."

count=$1
shift
run() {
	cargo test --config hack/test-runner.toml --workspace --locked --test e2e -- "$@"
}
names=$(run --list "$@")
if ! grep --quiet ': test$' <<< "$names"; then
	echo "no end-to-end test has a name with: $*" >&2
	exit 2
fi
# They end with this script, however it ends.
for ((core = 0; core < $(nproc); core++)); do
	bash -c "while kill -0 $$ 2> /dev/null; do :; done" &
done
for ((run = 1; run <= count; run++)); do
	echo "==> run $run of $count"
	run "$@" || {
		echo "==> FAILED in run $run of $count: $*" >&2
		exit 1
	}
done
echo "==> $count runs without a failure"
