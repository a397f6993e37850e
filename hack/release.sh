#!/usr/bin/env bash
# Builds what a release publishes: the same commit gives the same files.
#
#   hack/release.sh release     into target/dist/, for all platforms; for macOS only if target/macos/TARGET/
#                               has the program, which can be built on macOS only
#   hack/release.sh test        into target/dist-test/, with the program as tests build it, for this machine only
set -euo pipefail
cd "$(dirname "$0")/.."
export LC_ALL=C.UTF-8
umask 022
unset TAR_OPTIONS GZIP

name=node-resource-advertiser
repository=https://github.com/noderesource/node-resource-advertiser
registry=ghcr.io/noderesource
charts=(node-resource-advertiser node-resource-advertiser-rules)
version=$(hack/version.sh)
commit=$(git rev-parse HEAD)
SOURCE_DATE_EPOCH=$(git log -1 --format=%ct)
export SOURCE_DATE_EPOCH
host=$(rustc --print host-tuple)

case $1 in
release)
	dist=target/dist
	licenses=()
	if [[ -n $(git status --porcelain) ]]; then
		echo "commit your changes first: a release names the commit that it is built from" >&2
		exit 1
	fi
	;;
test)
	dist=target/dist-test
	# `make test-release` tests how those of the crates are gathered.
	licenses=(without-crates)
	export XTASK=target/debug/xtask
	;;
esac
# What is in the folder at its end is complete.
complete=$dist
dist=$complete.new
stage=$complete.stage
rm -rf "$complete" "$dist" "$stage"
mkdir -p "$dist" "$stage"

for chart in "${charts[@]}"; do
	if ! grep --quiet --line-regexp "version: $version" "charts/$chart/Chart.yaml"; then
		echo "charts/$chart/Chart.yaml does not have the version of Cargo.toml, $version" >&2
		exit 1
	fi
done

# Prints the platform of a Rust target, as archives are named.
platform() {
	local machine
	case $1 in
	x86_64-*) machine=amd64 ;;
	aarch64-*) machine=arm64 ;;
	esac
	case $1 in
	*-linux-*) echo "linux-$machine" ;;
	*-windows-*) echo "windows-$machine" ;;
	*-darwin) echo "darwin-$machine" ;;
	esac
}

# Prints the package URL of the C library that is linked statically.
libc() {
	local package library version
	case $1 in
	"$host") package=libc6-dev ;;
	*-windows-*) package=mingw-w64-x86-64-dev ;;
	*) package=libc6-dev-$(platform "$1" | cut -d - -f 2)-cross ;;
	esac
	case $1 in
	*-darwin) return ;;
	*-windows-*) library=mingw-w64 ;;
	*) library=glibc ;;
	esac
	# A library for another platform has the version of its source and a suffix.
	if version=$(dpkg-query --show --showformat='${Version}' "$package" 2> /dev/null); then
		version=${version%cross*}
		(
			# shellcheck disable=SC1091
			. /etc/os-release
			echo "pkg:deb/$ID/$library@${version//+/%2B}?distro=$VERSION_CODENAME"
		)
	else
		version=$(getconf GNU_LIBC_VERSION)
		echo "pkg:generic/$library@${version##* }"
	fi
}

# Writes the files of a folder into an archive, the same each time.
archive() {
	tar --create --sort=name --format=ustar --mtime="@$SOURCE_DATE_EPOCH" --owner=0 --group=0 --numeric-owner \
		--mode='a-s,u=rwX,go=rX' --directory "$1" . | gzip --no-name --best > "$2"
}

targets=({x86_64,aarch64}-unknown-linux-gnu x86_64-pc-windows-gnu {x86_64,aarch64}-apple-darwin)
if [[ $1 == test ]]; then
	targets=("$host")
fi
declare -A programs
built=()
for target in "${targets[@]}"; do
	case $1-$target in
	test-*) programs[$target]=$(hack/program.sh test) ;;
	*-apple-*) programs[$target]=target/macos/$target/$name ;;
	*) programs[$target]=$(hack/program.sh "$target") ;;
	esac
	if [[ -e ${programs[$target]} ]]; then
		built+=("$target")
	elif [[ -n ${BUILDER:-} ]]; then
		echo "there is no ${programs[$target]}, which a published release has" >&2
		exit 1
	else
		echo "left out: $target: run \`make program TARGET=$target\` on macOS, and copy the program to target/macos/$target/"
	fi
done

echo "==> license texts, completions and manual pages"
common=$stage/common
mkdir -p "$common/completions" "$common/man"
hack/licenses.sh "$common/licenses" "${licenses[@]}"
cp README.md CHANGELOG.md LICENSE "$common"
for shell in bash elvish fish powershell zsh; do
	"${programs[$host]}" completions "$shell" > "$common/completions/$name.$shell"
done
"${programs[$host]}" man "$common/man"

images=()
rust=$(rustc --version | cut -d ' ' -f 2)
for target in "${built[@]}"; do
	echo "==> archive and bill of materials for $target"
	platform=$(platform "$target")
	cp -r "$common" "$stage/$platform"
	install "${programs[$target]}" "$stage/$platform"
	archive "$stage/$platform" "$dist/$name-$version-$platform.tar.gz"
	libc=$(libc "$target")
	hack/xtask.sh sbom --package "$name" --target "$target" \
		--linked "pkg:github/rust-lang/rust@$rust" ${libc:+--linked "$libc"} \
		--output "$dist/$name-$version-$platform.cdx.json"
	if [[ $target == *-linux-* ]]; then
		images+=("${programs[$target]}")
	fi
done

echo "==> image"
image=$(hack/image.sh "$dist/$name-$version-image.tar" "$common/licenses" "${images[@]}")
artifacts=(--artifact "$registry/$name=$image")

echo "==> charts and manifests, which name the image by its digest"
for chart in "${charts[@]}"; do
	git ls-files -z "charts/$chart" | tar --create --null --files-from=- | tar --extract --directory "$stage"
	sed -i "s|^  noderesource.dev/image-digest: \"\"\$|  noderesource.dev/image-digest: $image|" "$stage/charts/$chart/Chart.yaml"
	# Helm gives the files of a package the times that they have.
	find "$stage/charts/$chart" -exec touch --date="@$SOURCE_DATE_EPOCH" {} +
	target/tools/bin/helm package "$stage/charts/$chart" --destination "$dist" > /dev/null
	digest=$(hack/xtask.sh chart --package "$dist/$chart-$version.tgz" --repository "$registry/charts" \
		--output "$dist/$chart-$version-chart.tar")
	artifacts+=(--artifact "$registry/charts/$chart=$digest")
done
grep --quiet "$image" "$stage/charts/$name/Chart.yaml"
for manifest in install protect; do
	hack/manifests.sh "$manifest" "$stage/charts/$name" > "$dist/$manifest.yaml"
done
cp crds/noderesource.dev_nodeextendedresources.yaml "$dist/crds.yaml"
mkdir -p "$stage"/static/{mutating,validating}
cp deploy/static/admission.yaml "$stage/static"
for manifest in static/mutating/protect static/validating/confine; do
	hack/manifests.sh "$manifest" "$stage/charts/$name" > "$stage/$manifest.yaml"
done
archive "$stage/static" "$dist/static.tgz"

echo "==> plugin manifest for krew, provenance and checksums"
{
	sed -e '/^#/d' -e "s|{{version}}|$version|g" -e "s|{{repository}}|$repository|g" hack/krew.yaml
	for target in "${built[@]}"; do
		platform=$(platform "$target")
		file=$name-$version-$platform.tar.gz
		cat <<- END
			  - selector:
			      matchLabels: {os: ${platform%-*}, arch: ${platform#*-}}
			    uri: $repository/releases/download/v$version/$file
			    sha256: $(sha256sum "$dist/$file" | cut -d ' ' -f 1)
			    bin: $(basename "${programs[$target]}")
		END
	done
} > "$dist/extended-resources.yaml"
digest() {
	echo "sha256:$(sha256sum "$1" | cut -d ' ' -f 1)"
}
hack/xtask.sh provenance --repository "$repository" --commit "$commit" --command "make release" \
	--builder "${BUILDER:-$repository}" "${artifacts[@]}" \
	--dependency "pkg:github/rust-lang/rust@$rust=$(digest "$(rustc --print sysroot)/bin/rustc")" \
	--dependency "file:Cargo.lock=$(digest Cargo.lock)" \
	--output "$stage/provenance.json" "$dist"/*
mv "$stage/provenance.json" "$dist/provenance.intoto.json"
# Not into a file in the folder that is read.
sums=$(cd "$dist" && sha256sum -- *)
echo "$sums" > "$dist/SHA256SUMS"
rm -rf "$stage"
mv "$dist" "$complete"
while read -r sum file; do
	printf '%12d  %s  %s\n' "$(stat --format=%s "$complete/$file")" "$sum" "$file"
done < "$complete/SHA256SUMS"
