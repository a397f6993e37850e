#!/usr/bin/env bash
# Installs Debian's packages that have a program, as root, unless it is there.
#
#   hack/require.sh PROGRAM PACKAGE…
set -euo pipefail

if command -v "$1" > /dev/null; then
	exit 0
fi
if ((EUID != 0)) || ! command -v apt-get > /dev/null; then
	echo "there is no $1: install it (on Debian: apt-get install ${*:2})" >&2
	exit 1
fi
# Not to the output, which others read.
{ apt-get update --quiet && apt-get install --quiet --yes --no-install-recommends "${@:2}"; } >&2
