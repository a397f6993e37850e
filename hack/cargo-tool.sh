#!/usr/bin/env bash
# Builds a program that crates.io has.
#
#   hack/cargo-tool.sh PROGRAM CRATE@VERSION FOLDER
set -euo pipefail
cd "$(dirname "$0")/.."

program=$1
crate=${2%@*}
version=${2#*@}
folder=$3
# What each prints: its name and version.
if [[ $("$folder/$program" --version 2> /dev/null) == "$crate $version" ]]; then
	exit 0
fi
key=$({ rustc --version --verbose; sha256sum hack/cargo-tool.sh; } | sha256sum | cut -c 1-32)
cached=tools/$crate-$version-$key
root=target/tools/$crate
rm -rf "$root"
mkdir -p "$root"
if ! hack/cache.sh restore "$cached" "$root"; then
	# It runs for seconds: optimizing it takes longer than it saves.
	CARGO_PROFILE_DEV_DEBUG=0 CARGO_INCREMENTAL=0 cargo install --quiet --locked --debug --force --root "$root" \
		--target-dir "target/tools/build-$crate" --version "$version" "$crate"
	rm -rf "target/tools/build-$crate"
	hack/cache.sh save "$root" "$cached"
fi
mkdir -p "$folder"
cp "$root/bin/$program" "$folder/$program"
