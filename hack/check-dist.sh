#!/usr/bin/env bash
# Checks that a folder has the files of a release, and nothing else.
#
#   hack/check-dist.sh FOLDER [DIGEST]     DIGEST is that of SHA256SUMS, where another job has built the files
set -euo pipefail
export LC_ALL=C.UTF-8

cd "$1"
sums=$(sha256sum SHA256SUMS | cut -d ' ' -f 1)
if [[ -n ${2:-} && $2 != "$sums" ]]; then
	echo "$1/SHA256SUMS has the digest $sums, not $2: these are not the files that were built" >&2
	exit 1
fi
sha256sum --check --strict --quiet SHA256SUMS
# Signatures are those of an earlier attempt, which are written again.
unlisted=$(comm -23 <(ls | sort | grep --invert-match '\.sigstore\.json$') <({ cut -d ' ' -f 3 SHA256SUMS; echo SHA256SUMS; } | sort))
if [[ -n $unlisted ]]; then
	echo "$1 has what SHA256SUMS does not list: ${unlisted//$'\n'/, }" >&2
	exit 1
fi
