#!/usr/bin/env bash
# Writes the license texts of the program, of its crates and of its C library into a folder.
#
#   hack/licenses.sh FOLDER [without-crates]     without those of the crates, which need cargo-about
set -euo pipefail
cd "$(dirname "$0")/.."

folder=$1
mkdir -p "$folder"
cp LICENSE "$folder"
if [[ ${2:-} == without-crates ]]; then
	echo 'Builds for tests do not have the license texts of the crates.' > "$folder/crates.txt"
else
	# It takes a minute to compare the texts of all crates with known licenses: only if they have changed.
	key=$(cat Cargo.lock about.toml hack/licenses.hbs hack/licenses.sh hack/tools.mk | sha256sum | cut -c 1-32)
	gathered=target/licenses/crates-$key
	if [[ ! -e $gathered/crates.txt ]]; then
		mkdir -p "$gathered"
		if ! hack/cache.sh restore "licenses/crates-$key" "$gathered"; then
			cargo fetch --locked --quiet
			PATH=$PWD/target/tools/bin:$PATH cargo about generate --frozen --output-file "$gathered/new.txt" hack/licenses.hbs
			if ! grep --quiet tokio "$gathered/new.txt"; then
				echo "cargo-about has not found the licenses of the crates: see $gathered/new.txt" >&2
				exit 1
			fi
			mv "$gathered/new.txt" "$gathered/crates.txt"
			hack/cache.sh save "$gathered" "licenses/crates-$key"
		fi
	fi
	cp "$gathered/crates.txt" "$folder"
fi
# Where Debian, and where Fedora and Arch Linux have the text.
for lgpl in /usr/share/common-licenses/LGPL-2.1 /usr/share/licenses/{glibc,glibc-common}/COPYING.LIB ''; do
	if [[ -z $lgpl ]]; then
		echo "the license of glibc (LGPL 2.1) is not on this machine: on Debian, the package base-files has it" >&2
		exit 1
	elif [[ -f $lgpl ]]; then
		break
	fi
done
{
	echo 'On Linux, the program contains parts of the GNU C Library, https://sourceware.org/glibc, under this license. Its'
	echo 'source, and that of this program, with which you can link it again, are public.'
	echo
	cat "$lgpl"
} > "$folder/glibc.txt"
