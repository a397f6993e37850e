# Tools that the tests need, at these versions.
TOOLS := target/tools/bin
# Its program has the same name as the other Helm's.
HELM3 := target/tools/helm3
CARGO_ABOUT_VERSION := 0.9.3
CARGO_AUDITABLE_VERSION := 0.7.7
CARGO_DENY_VERSION := 0.20.2
TYPOS_VERSION := 1.52.0
# Not in a go.mod: it depends on modules that are nowhere published. The checksum database vouches for it.
ARGO_CD := github.com/argoproj/argo-cd/v3@v3.4.13
PROMETHEUS_OPERATOR := github.com/prometheus-operator/prometheus-operator
PROMETHEUS_OPERATOR_CRDS := $(addprefix example/prometheus-operator-crd/monitoring.coreos.com_,podmonitors.yaml prometheusrules.yaml servicemonitors.yaml)
# Only for its CRD: the program does not run in the tests.
FLUX_HELM := github.com/fluxcd/helm-controller@v1.6.3
FLUX_SOURCE_CRDS := $(addprefix config/crd/bases/source.toolkit.fluxcd.io_,buckets.yaml externalartifacts.yaml gitrepositories.yaml ocirepositories.yaml)

.PHONY: tools
tools: ## Build helm and other tools for the charts and the image into target/tools/
	@$(STEP) bash -ec 'hack/go-build.sh tools $(TOOLS) -- github.com/google/go-containerregistry/cmd/crane \
		github.com/helm-unittest/helm-unittest/cmd/helm-unittest github.com/yannh/kubeconform/cmd/kubeconform helm.sh/helm/v4/cmd/helm; \
		hack/go-build.sh tools $(HELM3) -- helm.sh/helm/v3/cmd/helm'

# The CRDs of Prometheus Operator, for optional objects of the chart.
.PHONY: monitoring-crds
monitoring-crds:
	@$(STEP) hack/crds.sh target/tools/crds tests/tools/alerts $(PROMETHEUS_OPERATOR) $(PROMETHEUS_OPERATOR_CRDS)

# Only for their CRDs, which manifests in examples/ have to fit.
KUEUE := sigs.k8s.io/kueue@v0.17.0
KUEUE_CRDS := $(addprefix config/components/crd/bases/kueue.x-k8s.io_,clusterqueues.yaml localqueues.yaml resourceflavors.yaml)

.PHONY: example-crds
example-crds: CRDS := hack/crds.sh target/tools/example-crds tests/karpenter
example-crds:
	@$(STEP) bash -ec '$(CRDS) $(KUEUE) $(KUEUE_CRDS); \
		$(CRDS) sigs.k8s.io/karpenter pkg/apis/crds/autoscaling.x-k8s.io_capacitybuffers.yaml'

# Flux, and a program that reports health like Flux, Helm and Argo CD: see tests/gitops/go.mod.
.PHONY: gitops-tools
gitops-tools: ## Build Flux and other GitOps tools into target/tools/bin/ (some minutes, once)
	@$(STEP) hack/go-build.sh gitops $(TOOLS) -- github.com/fluxcd/kustomize-controller github.com/rhysd/actionlint/cmd/actionlint ./health

.PHONY: gitops-crds
gitops-crds: CRDS := hack/crds.sh target/tools/gitops-crds tests/gitops
gitops-crds:
	@$(STEP) bash -ec '$(CRDS) github.com/fluxcd/kustomize-controller config/crd/bases/kustomize.toolkit.fluxcd.io_kustomizations.yaml; \
		$(CRDS) github.com/fluxcd/source-controller $(FLUX_SOURCE_CRDS); \
		$(CRDS) $(FLUX_HELM) config/crd/bases/helm.toolkit.fluxcd.io_helmreleases.yaml; \
		$(CRDS) $(ARGO_CD) manifests/crds/application-crd.yaml'

# Kyverno's command line: see tests/kyverno/go.mod.
.PHONY: kyverno
kyverno: ## Build Kyverno's command line into target/tools/bin/ (some minutes, once)
	@$(STEP) hack/go-build.sh kyverno $(TOOLS) -- github.com/kyverno/kyverno/cmd/cli/kubectl-kyverno

# What makes a release, besides Helm and crane.
.PHONY: cargo-about cargo-auditable
cargo-about:
	@$(STEP) hack/cargo-tool.sh cargo-about cargo-about@$(CARGO_ABOUT_VERSION) $(TOOLS) cli release

cargo-auditable:
	@$(STEP) hack/cargo-tool.sh cargo-auditable cargo-auditable@$(CARGO_AUDITABLE_VERSION) $(TOOLS)

# What publishes a release, and what installs the plugin from it.
.PHONY: signing-tools
signing-tools: ## Build cosign and krew into target/tools/bin/ (some minutes, once)
	@$(STEP) bash -ec 'hack/go-build.sh signing $(TOOLS) -- github.com/sigstore/cosign/v3/cmd/cosign; \
		hack/go-build.sh krew $(TOOLS) -- sigs.k8s.io/krew/cmd/krew'

# Nothing else is compiled where the release is signed.
.PHONY: publish-tools
publish-tools:
	@$(STEP) bash -ec 'hack/go-build.sh tools $(TOOLS) -- github.com/google/go-containerregistry/cmd/crane; \
		hack/go-build.sh signing $(TOOLS) -- github.com/sigstore/cosign/v3/cmd/cosign'

.PHONY: cargo-deny typos
cargo-deny:
	@$(STEP) hack/cargo-tool.sh cargo-deny cargo-deny@$(CARGO_DENY_VERSION) $(TOOLS)

typos:
	@$(STEP) hack/cargo-tool.sh typos typos-cli@$(TYPOS_VERSION) $(TOOLS)
