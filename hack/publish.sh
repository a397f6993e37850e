#!/usr/bin/env bash
# Pushes the image and the charts of a release, signs them and the files, and verifies the signatures.
#
#   hack/publish.sh FOLDER REGISTRY [DIGEST]     DIGEST is that of SHA256SUMS, where another job has built the files
#
# Signs with the key COSIGN_KEY, or, in a workflow, with its identity.
set -euo pipefail
cd "$(dirname "$0")/.."

dist=$1
registry=$2
name=node-resource-advertiser
version=$(hack/version.sh)
tools=$PWD/target/tools/bin
export COSIGN_YES=true
stage=$(mktemp -d)
trap 'rm -rf "$stage"' EXIT
identity=()
if [[ -n ${COSIGN_KEY:-} ]]; then
	# A key needs none of the public services.
	"$tools/cosign" signing-config create --out "$stage/none.json"
	identity=(--key "$COSIGN_KEY" --signing-config "$stage/none.json")
fi

if [[ -n ${GITHUB_ACTIONS:-} && ${registry%%/*} == ghcr.io ]]; then
	"$tools/crane" auth login "${registry%%/*}" --username "$GITHUB_ACTOR" --password-stdin <<< "$GH_TOKEN"
fi

# Before anything is pushed: the files are those that were built, of this commit, and of a version that is new.
hack/check-dist.sh "$dist" "${3:-}"
if ! grep --quiet "\"gitCommit\": \"$(git rev-parse HEAD)\"" "$dist/provenance.intoto.json"; then
	echo "$dist was built from another commit: run make release" >&2
	exit 1
fi
if [[ ${GITHUB_REF_TYPE:-} == tag ]]; then
	if [[ $GITHUB_REF_NAME != "v$version" ]]; then
		echo "the tag $GITHUB_REF_NAME is not that of the version in Cargo.toml, $version" >&2
		exit 1
	fi
	for platform in linux-amd64 linux-arm64 darwin-amd64 darwin-arm64 windows-amd64; do
		[[ -e $dist/$name-$version-$platform.tar.gz ]] || { echo "$dist has no program for $platform" >&2 && exit 1; }
	done
	hack/notes.sh "$version" > /dev/null
fi
for artifact in "$name" "charts/$name" "charts/$name-rules"; do
	reference=$registry/$artifact:$version
	if published=$("$tools/crane" digest "$reference" 2>&1); then
		if ! grep --quiet "${published#sha256:}" "$dist/provenance.intoto.json"; then
			echo "$reference exists with other contents: choose another version" >&2
			exit 1
		fi
	elif ! grep --quiet --extended-regexp 'MANIFEST_UNKNOWN|NAME_UNKNOWN|404 Not Found' <<< "$published"; then
		echo "cannot check whether $reference exists: $published" >&2
		exit 1
	fi
done
pushed=$(hack/push.sh "$dist" "$registry")
mapfile -t references <<< "$pushed"
image=${references[0]}

# Not with a program of this repository: its dependencies would be compiled with permission to sign.
hack/require.sh jq jq
jq .predicate "$dist/provenance.intoto.json" > "$stage/predicate.json"
for reference in "${references[@]}"; do
	# The tag could move.
	"$tools/cosign" sign "${identity[@]}" "$reference"
	"$tools/cosign" attest "${identity[@]}" --type slsaprovenance1 --predicate "$stage/predicate.json" "$reference"
done
for sbom in "$dist/$name-$version"-linux-*.cdx.json; do
	platform=${sbom##*-linux-}
	digest=$("$tools/crane" digest --platform "linux/${platform%.cdx.json}" "$image")
	"$tools/cosign" attest "${identity[@]}" --type cyclonedx --predicate "$sbom" "${image%@*}@$digest"
done
"$tools/cosign" sign-blob "${identity[@]}" --bundle "$dist/SHA256SUMS.sigstore.json" "$dist/SHA256SUMS"
"$tools/cosign" attest-blob "${identity[@]}" --statement "$dist/provenance.intoto.json" \
	--bundle "$dist/provenance.sigstore.json"

# As users do, who know the identity from docs/verify.md.
if [[ -n ${COSIGN_KEY:-} ]]; then
	"$tools/cosign" public-key --key "$COSIGN_KEY" > "$stage/key.pub"
	expected=(--key "$stage/key.pub" --insecure-ignore-tlog)
else
	expected=(--certificate-identity "https://github.com/$GITHUB_WORKFLOW_REF"
		--certificate-oidc-issuer https://token.actions.githubusercontent.com)
fi
"$tools/cosign" verify-blob "${expected[@]}" --bundle "$dist/SHA256SUMS.sigstore.json" "$dist/SHA256SUMS"
for reference in "${references[@]}"; do
	"$tools/cosign" verify "${expected[@]}" "$reference" > /dev/null
	"$tools/cosign" verify-attestation "${expected[@]}" --type slsaprovenance1 "$reference" > /dev/null
done
