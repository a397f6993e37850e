# Tools that the tests need, at these versions.
TOOLS := target/tools/bin
CARGO_DENY_VERSION := 0.20.2
# Not in a go.mod: it depends on modules that are nowhere published. The checksum database vouches for it.
ARGO_CD := github.com/argoproj/argo-cd/v3@v3.4.13
PROMETHEUS_OPERATOR := github.com/prometheus-operator/prometheus-operator
PROMETHEUS_OPERATOR_CRDS := $(addprefix example/prometheus-operator-crd/monitoring.coreos.com_,prometheusrules.yaml servicemonitors.yaml)
FLUX_SOURCE_CRDS := $(addprefix config/crd/bases/source.toolkit.fluxcd.io_,buckets.yaml externalartifacts.yaml gitrepositories.yaml ocirepositories.yaml)

.PHONY: tools
tools: ## Build helm and other tools for the chart and the image into target/tools/bin/
	@$(STEP) hack/go-build.sh tools $(TOOLS) -- github.com/google/go-containerregistry/cmd/crane \
		github.com/helm-unittest/helm-unittest/cmd/helm-unittest github.com/yannh/kubeconform/cmd/kubeconform helm.sh/helm/v4/cmd/helm

# The kinds of Prometheus Operator, which a chart may have objects of.
.PHONY: monitoring-crds
monitoring-crds:
	@$(STEP) hack/crds.sh target/tools/crds tests/tools/alerts $(PROMETHEUS_OPERATOR) $(PROMETHEUS_OPERATOR_CRDS)

# Flux, and what reports the health of objects as Flux, Helm and Argo CD see it: see tests/gitops/go.mod.
.PHONY: gitops-tools
gitops-tools: ## Build Flux and other GitOps tools into target/tools/bin/ (some minutes, once)
	@$(STEP) hack/go-build.sh gitops $(TOOLS) -- github.com/fluxcd/kustomize-controller github.com/rhysd/actionlint/cmd/actionlint ./health

.PHONY: gitops-crds
gitops-crds: CRDS := hack/crds.sh target/tools/gitops-crds tests/gitops
gitops-crds:
	@$(STEP) bash -ec '$(CRDS) github.com/fluxcd/kustomize-controller config/crd/bases/kustomize.toolkit.fluxcd.io_kustomizations.yaml; \
		$(CRDS) github.com/fluxcd/source-controller $(FLUX_SOURCE_CRDS); \
		$(CRDS) $(ARGO_CD) manifests/crds/application-crd.yaml'

.PHONY: cargo-deny
cargo-deny:
	@$(STEP) hack/cargo-deny.sh $(CARGO_DENY_VERSION) $(TOOLS)
