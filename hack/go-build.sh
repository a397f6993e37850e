#!/usr/bin/env bash
# Builds programs of a Go module below tests/ into a folder, all at once, because they share most packages.
#
#   hack/go-build.sh MODULE FOLDER [FLAG…] -- PACKAGE…
#
# A key identifies all inputs of the programs. A folder that has the programs for this key is not changed. With
# BUILD_CACHE, a folder outside the checkout, the programs are copied from there, or into it.
set -euo pipefail
cd "$(dirname "$0")/.."

module=$1
folder=$PWD/$2
shift 2
flags=()
while [[ $1 != -- ]]; do
	flags+=("$1")
	shift
done
shift
packages=("$@")

# No program depends on this machine, except for the C compiler and its libraries.
sources=(hack/go-build.sh "tests/$module"/go.{mod,sum})
for package in "${packages[@]}"; do
	if [[ $package == ./* ]]; then
		sources+=("tests/$module/${package#./}"/*)
	fi
done
export GOWORK=off
if grep --quiet --line-regexp --fixed-strings $'\t'"./$module" tests/go.work; then
	GOWORK=$PWD/tests/go.work
	sources+=(tests/go.work tests/go.work.sum)
	for member in $(sed -n 's/^\t\.\///p' tests/go.work); do
		sources+=("tests/$member"/go.{mod,sum})
	done
fi
describe() {
	echo "$module" "${flags[@]}" "${packages[@]}"
	go version
	go env GOOS GOARCH GOAMD64 GOARM64 GOEXPERIMENT GOFLAGS CGO_ENABLED
	if [[ ${CGO_ENABLED:-1} == 1 ]]; then
		"${CC:-cc}" --version
		{ "${CC:-cc}" -E -x c -include seccomp.h /dev/null 2> /dev/null || true; } | sha256sum
	fi
	sha256sum "${sources[@]}"
}
key=$(describe | sha256sum | cut -c 1-32)
label=$(basename "${packages[0]}")
keep=$folder/.$label.key
if [[ -e $keep && $(< "$keep") == "$key" ]] && (cd "$folder" && ls "${packages[@]##*/}") > /dev/null 2>&1; then
	exit 0
fi

mkdir -p "$folder"
stage=$(mktemp -d "$folder/.stage.XXXXXX")
trap 'rm -rf "$stage"' EXIT
cached=go/$module-$label-$key
if hack/cache.sh restore "$cached" "$stage"; then
	echo "copied from the build cache: $cached"
else
	echo "building ${packages[*]}"
	# At a lower priority than cargo: the fast tests run in parallel.
	(cd "tests/$module" && nice go build -ldflags '-s -w' "${flags[@]}" -o "$stage/" "${packages[@]}")
	hack/cache.sh save "$stage" "$cached"
fi
rm -f "$keep"
mv "$stage"/* "$folder"
echo "$key" > "$keep"
