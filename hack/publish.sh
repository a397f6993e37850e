#!/usr/bin/env bash
# Pushes the image and the charts of a release, and signs them and the files. In a workflow for a tag, creates the release.
#
#   hack/publish.sh FOLDER REGISTRY
#
# Signs with the key COSIGN_KEY, or, in a workflow, with its identity.
set -euo pipefail
cd "$(dirname "$0")/.."

dist=$1
registry=$2
name=node-resource-advertiser
version=$(sed -n 's/^version = "\(.*\)"/\1/p' Cargo.toml)
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

if [[ -n ${GH_TOKEN:-} ]]; then
	"$tools/crane" auth login "${registry%%/*}" --username "$GITHUB_ACTOR" --password-stdin <<< "$GH_TOKEN"
fi

# Before anything is pushed.
if [[ ${GITHUB_REF_TYPE:-} == tag ]]; then
	hack/notes.sh "$version" > "$stage/notes.md"
fi
pushed=$(hack/push.sh "$dist" "$registry")
mapfile -t references <<< "$pushed"
image=${references[0]}

read -r -a xtask <<< "${XTASK:-cargo run --quiet --locked --package xtask --}"
"${xtask[@]}" predicate "$dist/provenance.intoto.json" > "$stage/predicate.json"
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
if [[ ${GITHUB_REF_TYPE:-} == tag ]]; then
	gh release create "$GITHUB_REF_NAME" --verify-tag --notes-file "$stage/notes.md" "$dist"/*
fi
