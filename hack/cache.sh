#!/usr/bin/env bash
# The build cache, BUILD_CACHE: folders outside the checkout that other checkouts share. Does nothing without it.
#
#   hack/cache.sh restore NAME FOLDER     copies an entry into an empty folder, or fails if none exists
#   hack/cache.sh save FOLDER NAME        stores a copy of a folder, or warns: builds work without it
#
# NAME is KIND/LABEL-KEY, with a key of all inputs of the entry. An entry appears atomically, and never changes.
# All entries take at most BUILD_CACHE_MIB: the least recently used are deleted first.
set -euo pipefail

if [[ -z ${BUILD_CACHE:-} ]]; then
	[[ $1 == save ]]
	exit
fi
limit=${BUILD_CACHE_MIB:-8192}

warn() {
	echo "warning: the build cache: $*" >&2
}

mebibytes() {
	du --summarize --block-size=1M "$1" | cut --fields 1
}

# Deletes an entry. Moves it away first, so that a copy in progress fails.
delete() {
	local gone
	gone=$(mktemp -d "$BUILD_CACHE/.stage.XXXXXX")
	# Another run may have deleted the entry already.
	mv "$1" "$gone" 2> /dev/null || [[ ! -e $1 ]]
	rm -rf "$gone"
}

# Deletes entries until there is room for a new one, and those not used for a month.
make_room() {
	local left=$1 now used entry size
	find "$BUILD_CACHE" -maxdepth 1 -name '.stage.*' -mmin +120 -exec rm -rf {} +
	now=$(date +%s)
	while IFS=$'\t' read -r -d '' used entry; do
		size=$(mebibytes "$entry")
		if ((size > left || now - ${used%.*} > 30 * 24 * 3600)); then
			delete "$entry"
		else
			left=$((left - size))
		fi
	done < <(find "$BUILD_CACHE" -mindepth 2 -maxdepth 2 -type d -not -path '*/.stage.*' -printf '%T@\t%p\0' |
		sort --zero-terminated --numeric-sort --reverse)
}

case $1 in
restore)
	entry=$BUILD_CACHE/$2
	[[ -d $entry ]] || exit 1
	# A read-only cache is still used.
	touch "$entry" 2> /dev/null || true
	if ! cp --archive "$entry"/. "$3" || [[ ! -d $entry ]]; then
		warn "$entry cannot be copied: it is rebuilt"
		find "$3" -mindepth 1 -delete
		exit 1
	fi
	;;
save)
	entry=$BUILD_CACHE/$3
	if [[ -d $entry ]]; then
		exit 0
	fi
	stage=
	trap 'status=$?; rm -rf "$stage"; ((status == 0)) || warn "$2 is not kept as $entry"; exit 0' EXIT
	mkdir -p "$(dirname "$entry")"
	size=$(mebibytes "$2")
	if ((size > limit)); then
		warn "$2 is not kept: it has $size MiB, of $limit for all (BUILD_CACHE_MIB)"
		exit 0
	fi
	make_room $((limit - size))
	free=$(df --output=avail --block-size=1M "$BUILD_CACHE" | tail --lines 1)
	# Other uses of the disk take precedence.
	if ((free < size + 1024)); then
		warn "$2 is not kept: it has $size MiB, and $BUILD_CACHE ${free// /} MiB free"
		exit 0
	fi
	stage=$(mktemp -d "$BUILD_CACHE/.stage.XXXXXX")
	cp --archive "$2"/. "$stage"
	chmod 755 "$stage"
	touch "$stage"
	# If another run was faster, its copy is kept: it has the same inputs.
	mv --no-target-directory "$stage" "$entry" 2> /dev/null || [[ -d $entry ]]
	;;
esac
