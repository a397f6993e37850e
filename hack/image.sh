#!/usr/bin/env bash
# Builds a container image without Docker. It contains only the program, which is therefore static.
#
#   hack/image.sh release         an optimized image and its SBOM, as a release publishes them
#   hack/image.sh test OUTPUT     an image of the program as tests build it, without optimization
#   hack/image.sh path            prints the path of the release image
#
# The C library is glibc, whose allocator is faster here; name resolution loads no library at run time. Paths of this
# machine are removed, so that the same commit gives the same image elsewhere.
set -euo pipefail
cd "$(dirname "$0")/.."

program=node-resource-advertiser
static='-C target-feature=+crt-static'
triple=$(rustc --version --verbose | sed -n 's/^host: //p')
version=$(sed -n 's/^version = "\(.*\)"/\1/p' Cargo.toml)
description=$(sed -n 's/^description = "\(.*\)"/\1/p' Cargo.toml)
image=target/image/$program-$version-${triple%%-*}.tar
created=${SOURCE_DATE_EPOCH:-$(git log -1 --format=%ct)}
label=org.opencontainers.image
archive=(
	image --created "$created" --reference "ghcr.io/noderesource/$program:$version" --argument run
	--label "$label.title=$program" --label "$label.version=$version" --label "$label.licenses=Apache-2.0"
	--label "$label.source=https://github.com/noderesource/node-resource-advertiser"
	--label "$label.revision=$(git describe --always --dirty --abbrev=40 --exclude '*')"
	--label "$label.description=$description"
)

case $1 in
path)
	echo "$image"
	;;
release)
	mkdir -p target/image
	cargo fetch --locked
	# Not in RUSTFLAGS, where a space in a path would end it.
	separator=$'\x1f'
	flags="${static// /$separator}$separator--remap-path-prefix=$PWD=/source"
	for registry in "${CARGO_HOME:-$HOME/.cargo}"/registry/src/*; do
		flags+="$separator--remap-path-prefix=$registry=/registry"
	done
	CARGO_ENCODED_RUSTFLAGS=$flags cargo build --release --locked --target "$triple" --bin "$program"
	xtask=(cargo run --quiet --locked --package xtask --)
	"${xtask[@]}" "${archive[@]}" --program "target/$triple/release/$program" --output "$image"
	glibc=$(getconf GNU_LIBC_VERSION)
	rust=$(rustc --version | cut -d ' ' -f 2)
	"${xtask[@]}" sbom --package "$program" --target "$triple" --created "$created" \
		--linked "glibc=${glibc##* }" --linked "rust-std=$rust" --output "${image%.tar}.cdx.json"
	ls -l "$image" "${image%.tar}.cdx.json"
	;;
test)
	# With the features of the tests' dependencies, which are then not recompiled, and with a separate folder
	# for the program, because tests run the one in target/debug meanwhile.
	# shellcheck disable=SC2086
	CARGO_BUILD_BUILD_DIR=target cargo rustc --locked --target-dir target/static --bin "$program" \
		--features serde_json/unbounded_depth,tokio/process,tokio/rt-multi-thread,tokio/test-util \
		-- $static -C strip=symbols
	mkdir -p "$(dirname "$2")"
	target/debug/xtask "${archive[@]}" --program "target/static/debug/$program" --output "$2"
	;;
esac
