#!/usr/bin/env bash
# Runs two linters on the rendered chart, and compares what they report with docs/linters.md.
#
#   hack/lint-chart.sh
set -euo pipefail
cd "$(dirname "$0")/.."

checkov=3.3.30
kube_score=1.20.0
folder=$PWD/target/tools/linters
if [[ ! -x $folder/kube-score-$kube_score ]]; then
	GOBIN=$folder GOWORK=off GOFLAGS=-mod=mod go install "github.com/zegl/kube-score/cmd/kube-score@v$kube_score"
	mv "$folder/kube-score" "$folder/kube-score-$kube_score"
fi
if [[ ! -x $folder/checkov-$checkov/bin/checkov ]]; then
	python3 -m venv "$folder/checkov-$checkov"
	"$folder/checkov-$checkov/bin/pip" install --quiet --disable-pip-version-check "checkov==$checkov"
fi
hack/require.sh jq jq

target/tools/bin/helm template node-resource-advertiser charts/node-resource-advertiser -n node-resource-advertiser \
	--set prune.enabled=true,networkPolicy.enabled=true,podDisruptionBudget.enabled=true \
	--api-versions admissionregistration.k8s.io/v1/MutatingAdmissionPolicy > "$folder/chart.yaml"
# Both fail where they report something.
"$folder/checkov-$checkov/bin/checkov" --file "$folder/chart.yaml" --framework kubernetes --skip-download \
	--output json > "$folder/checkov.json" || true
"$folder/kube-score-$kube_score" score "$folder/chart.yaml" --output-format json > "$folder/kube-score.json" || true
{
	jq --raw-output '"\(.summary.passed) \(.summary.failed)", .results.failed_checks[].check_id' "$folder/checkov.json"
	jq --raw-output '[.[].checks[] | select(.skipped | not)] as $all
		| ([$all[] | select(.grade < 10)]) as $failed
		| "\(($all - $failed) | length) \([$failed[].comments[]] | length)", $failed[].check.id' "$folder/kube-score.json"
} | sort -u > "$folder/reported"
{
	tr '\n' ' ' < docs/linters.md | grep --only-matching --extended-regexp 'passes [0-9]+ (checks )?and fails [0-9]+' | tr -dc '0-9 \n' | tr -s ' ' | sed 's/^ //'
	sed -n 's/^| [^|]* | \([^|]*\) |.*/\1/p' docs/linters.md | grep --only-matching '`[^`]*`' | tr -d '`'
} | sort -u > "$folder/documented"
if ! diff "$folder/documented" "$folder/reported"; then
	echo "docs/linters.md (<) differs from what the linters report (>): change the chart, or explain it there" >&2
	exit 1
fi
