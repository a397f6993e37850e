#!/usr/bin/env bash
# Pins each action of the workflows to the commit of the version in its comment: `uses: actions/checkout@… # v5.0.0`.
#
#   hack/pin-actions.sh [check] FILE…     check: changes nothing, and fails where a pin is not that commit
set -euo pipefail

mode=pin
if [[ $1 == check ]]; then
	mode=check
	shift
fi
wrong=0
while read -r action pin version; do
	repository=${GITHUB_SERVER_URL:-https://github.com}/$(cut -d / -f 1,2 <<< "$action")
	# The commit of an annotated tag comes last, as refs/tags/…^{}.
	commit=$(git ls-remote "$repository" "refs/tags/$version" "refs/tags/$version^{}" | tail -1 | cut -f 1)
	if [[ -z $commit ]]; then
		echo "$repository has no tag $version, which a comment names" >&2
		exit 1
	elif [[ $mode == pin ]]; then
		sed -i "s|\(uses: $action\)@[^ ]* # $version\$|\1@$commit # $version|" "$@"
	elif [[ $pin != "$commit" ]]; then
		echo "$action $version is $commit, not $pin: look at what changed, then run make pin-actions" >&2
		wrong=1
	fi
done < <(sed -n 's|^.*uses: \([^ @]*\)@\([^ ]*\) # \(v[^ ]*\)$|\1 \2 \3|p' "$@" | sort -u)
exit $wrong
