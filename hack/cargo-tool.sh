#!/usr/bin/env bash
# Builds a program that crates.io has.
#
#   hack/cargo-tool.sh PROGRAM CRATE@VERSION FOLDER [FEATURE] [PROFILE]
set -euo pipefail
cd "$(dirname "$0")/.."

program=$1
crate=${2%@*}
version=${2#*@}
folder=$3
features=${4:-}
# Most run for seconds: optimizing them takes longer than it saves.
profile=${5:-dev}
# macOS may have the other name only.
command -v sha256sum > /dev/null || sha256sum() { shasum -a 256 "$@"; }
key=$({ rustc --version --verbose; echo "$features" "$profile"; sha256sum hack/cargo-tool.sh; } | sha256sum | cut -c 1-32)
cached=tools/$crate-$version-$key
# Not by what each prints as its version: a plugin of cargo prints none.
keep=$folder/.$program.key
if [[ -e $keep && $(< "$keep") == "$cached" && -x $folder/$program ]]; then
	exit 0
fi
root=target/tools/$crate
rm -rf "$root"
mkdir -p "$root"
if ! hack/cache.sh restore "$cached" "$root"; then
	CARGO_PROFILE_DEV_DEBUG=0 CARGO_PROFILE_RELEASE_LTO=off CARGO_PROFILE_RELEASE_CODEGEN_UNITS=16 CARGO_INCREMENTAL=0 \
		cargo install --quiet --locked --profile "$profile" --force --root "$root" --target-dir "target/tools/build-$crate" --features "$features" --version "$version" "$crate"
	rm -rf "target/tools/build-$crate"
	hack/cache.sh save "$root" "$cached"
fi
mkdir -p "$folder"
rm -f "$keep"
cp "$root/bin/$program" "$folder/$program"
echo "$cached" > "$keep"
