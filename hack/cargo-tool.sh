#!/usr/bin/env bash
# Builds a program that crates.io has, or gets it built: where hack/PROGRAM-wheels.txt names Python packages that contain
# it, and their checksums, pip downloads one of them. Nothing of the package runs.
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
wheels=()
if [[ -e hack/$program-wheels.txt ]]; then
	wheels=("hack/$program-wheels.txt")
	if ! grep --quiet "^$program==$version " "${wheels[0]}"; then
		echo "${wheels[0]} has another version of $program than $version, which hack/tools.mk names" >&2
		exit 1
	fi
fi
# macOS may have the other name only.
command -v sha256sum > /dev/null || sha256sum() { shasum -a 256 "$@"; }
key=$({ rustc --version --verbose; echo "$features" "$profile"; sha256sum hack/cargo-tool.sh "${wheels[@]}"; } | sha256sum | cut -c 1-32)
cached=tools/$crate-$version-$key
# Not by what each prints as its version: a plugin of cargo prints none.
keep=$folder/.$program.key
if [[ -e $keep && $(< "$keep") == "$cached" && -x $folder/$program ]]; then
	exit 0
fi
root=target/tools/$crate
rm -rf "$root"
mkdir -p "$root"

# Gets the program from a package for this platform; fails if there is none, or no pip.
download() {
	((${#wheels[@]})) || return 1
	mkdir "$root/wheel" "$root/bin"
	python3 -m pip download --quiet --disable-pip-version-check --no-deps --only-binary :all: --require-hashes \
		--requirement "${wheels[0]}" --dest "$root/wheel" &&
		python3 -m zipfile --extract "$root"/wheel/*.whl "$root/wheel" &&
		install --mode=755 "$root"/wheel/*.data/scripts/"$program" "$root/bin/$program" &&
		rm -r "$root/wheel"
}

if hack/cache.sh restore "$cached" "$root"; then
	echo "copied from the build cache: $cached"
elif download; then
	hack/cache.sh save "$root" "$cached"
else
	rm -rf "${root:?}"/*
	CARGO_PROFILE_DEV_DEBUG=0 CARGO_PROFILE_RELEASE_LTO=off CARGO_PROFILE_RELEASE_CODEGEN_UNITS=16 CARGO_INCREMENTAL=0 \
		cargo install --quiet --locked --profile "$profile" --force --root "$root" --target-dir "target/tools/build-$crate" --features "$features" --version "$version" "$crate"
	rm -rf "target/tools/build-$crate"
	hack/cache.sh save "$root" "$cached"
fi
mkdir -p "$folder"
rm -f "$keep"
cp "$root/bin/$program" "$folder/$program"
echo "$cached" > "$keep"
