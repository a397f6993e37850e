# One command a purpose: `make help` lists them. Everything that is built lands in target/.

SHELL := /bin/bash
.SHELLFLAGS := -euo pipefail -c
.DEFAULT_GOAL := help
MAKEFLAGS += --no-builtin-rules --no-print-directory

CRD := crds/noderesource.dev_nodeextendedresources.yaml
CHART := charts/node-resource-advertiser
# In a folder of its own, which `kubectl apply -f crds/` leaves alone.
JSON_SCHEMA := crds/json-schema/nodeextendedresource_v1alpha1.json

# The same for everything that go builds, tests and vets: what differs is compiled anew, for minutes.
export CGO_ENABLED := 0
export GOFLAGS := -trimpath -buildvcs=false

# ---- The control plane: real Kubernetes from published Go modules, see tests/controlplane/go.mod.
KUBERNETES := 1.37.1
CONTROLPLANE := target/controlplane/bin
KUBERNETES_BINARIES := $(addprefix $(CONTROLPLANE)/,kube-apiserver kube-controller-manager kube-scheduler kubectl kubemark)
# What a real kubelet takes besides.
KUBELET_BINARIES := $(addprefix $(CONTROLPLANE)/,kubelet fakeruntime deviceplugin)
MODULES := tests/controlplane/go.mod tests/controlplane/go.sum
VERSION_PACKAGE := k8s.io/component-base/version
GO_LDFLAGS := -s -w -X $(VERSION_PACKAGE).gitVersion=v$(KUBERNETES) \
	-X $(VERSION_PACKAGE).gitMajor=$(word 1,$(subst ., ,$(KUBERNETES))) \
	-X $(VERSION_PACKAGE).gitMinor=$(word 2,$(subst ., ,$(KUBERNETES))) \
	-X k8s.io/client-go/pkg/version.gitVersion=v$(KUBERNETES)
GO_BUILD = cd tests/controlplane && go build -ldflags '$(GO_LDFLAGS)' -o $(abspath $@)

# ---- Tools that the tests need, at these versions.
CARGO_DENY_VERSION := 0.20.2
CARGO_DENY := target/tools/cargo-deny-$(CARGO_DENY_VERSION)/bin/cargo-deny
# From published Go modules, see tests/tools/go.mod.
TOOLS := target/tools/bin
TOOL_BINARIES := $(addprefix $(TOOLS)/,crane helm helm-unittest kubeconform)
TOOL_MODULES := tests/tools/go.mod tests/tools/go.sum
$(TOOLS)/crane: PACKAGE := github.com/google/go-containerregistry/cmd/crane
$(TOOLS)/helm: PACKAGE := helm.sh/helm/v4/cmd/helm
$(TOOLS)/helm-unittest: PACKAGE := github.com/helm-unittest/helm-unittest/cmd/helm-unittest
$(TOOLS)/kubeconform: PACKAGE := github.com/yannh/kubeconform/cmd/kubeconform
PROMETHEUS_OPERATOR := github.com/prometheus-operator/prometheus-operator
# The kinds of Prometheus Operator, which a chart may have objects of.
MONITORING_CRDS := $(addprefix target/tools/crds/monitoring.coreos.com_,prometheusrules.yaml servicemonitors.yaml)
# What `kubectl apply` takes, without what only Helm knows what to do with.
RENDER = $(TOOLS)/helm template node-resource-advertiser $(CHART) --namespace node-resource-advertiser --no-hooks --values deploy/values.yaml | \
	sed -e '/^ *app.kubernetes.io\/managed-by: /d' -e '/^ *helm.sh\/chart: /d' -e '/^\# Source: /d'
# GitOps tools, see tests/gitops/go.mod, and the kinds of their objects.
GITOPS_BINARIES := $(addprefix $(TOOLS)/,actionlint health kustomize-controller)
GITOPS_MODULES := tests/gitops/go.mod tests/gitops/go.sum
$(TOOLS)/actionlint: PACKAGE := github.com/rhysd/actionlint/cmd/actionlint
$(TOOLS)/health: PACKAGE := ./health
$(TOOLS)/kustomize-controller: PACKAGE := github.com/fluxcd/kustomize-controller
FLUX_CRDS := $(addprefix target/tools/gitops-crds/,kustomize.toolkit.fluxcd.io_kustomizations.yaml \
	$(addprefix source.toolkit.fluxcd.io_,buckets.yaml externalartifacts.yaml gitrepositories.yaml ocirepositories.yaml))
# Not in a go.mod: it depends on modules that are nowhere published. The checksum database vouches for it.
ARGO_CD := github.com/argoproj/argo-cd/v3@v3.4.13
ARGO_CD_CRD := target/tools/gitops-crds/argoproj.io_applications.yaml
VALUES_TABLE = cd tests/tools && go run ./valuestable
TOOL_BUILD = go build -ldflags '-s -w' -o $(abspath $@)

# ---- The image. It holds the program and nothing else, which is why that is static. With glibc, whose allocator is
# the faster one here; names are looked up without any library at run time. The paths of this machine stay out of it,
# so that the same commit gives the same image elsewhere too.
PROGRAM := node-resource-advertiser
VERSION = $(shell sed -n 's/^version = "\(.*\)"/\1/p' Cargo.toml)
TRIPLE = $(shell rustc --version --verbose | sed -n 's/^host: //p')
SOURCE := https://github.com/noderesource/node-resource-advertiser
SOURCE_DATE_EPOCH ?= $(shell git log -1 --format=%ct)
REFERENCE := ghcr.io/noderesource/$(PROGRAM):$(VERSION)
IMAGE := target/image/$(PROGRAM)-$(VERSION)-$(firstword $(subst -, ,$(TRIPLE))).tar
STATIC := -C target-feature=+crt-static
IMAGE_RUSTFLAGS = $(STATIC) --remap-path-prefix=$(CURDIR)=/source \
	$$(printf -- '--remap-path-prefix=%s=/registry ' "$${CARGO_HOME:-$$HOME/.cargo}"/registry/src/*)
LABEL = --label org.opencontainers.image.
ARCHIVE = cargo run --quiet --locked --package image -- archive --created $(SOURCE_DATE_EPOCH) --reference $(REFERENCE) --argument run \
	$(LABEL)title=$(PROGRAM) $(LABEL)version=$(VERSION) $(LABEL)licenses=Apache-2.0 $(LABEL)source=$(SOURCE) \
	$(LABEL)revision=$(shell git describe --always --dirty --abbrev=40 --exclude '*') \
	$(LABEL)description='$(shell sed -n 's/^description = "\(.*\)"/\1/p' Cargo.toml)'

# ---- A node with real containers: what runs them, from published Go modules, see tests/containers/go.mod.
CONTAINERS := target/containers
CONTAINER_MODULES := tests/containers/go.mod tests/containers/go.sum
CNI_PLUGINS := $(addprefix $(CONTAINERS)/bin/,host-local loopback ptp)
CONTAINER_BINARIES := $(addprefix $(CONTAINERS)/bin/,containerd containerd-shim-runc-v2 ctr runc runtime) $(CNI_PLUGINS)
CONTAINER_BUILD = cd tests/containers && go build -ldflags '-s -w' -o $(abspath $@)
# runc applies seccomp profiles where there are libseccomp's headers, and refuses containers with one where not.
SECCOMP := $(shell $(CC) -E -x c -include seccomp.h /dev/null > /dev/null 2>&1 && echo 1)
# Of the program as other tests build it, but static: nobody waits for an optimized one, but with RELEASE=1.
TEST_IMAGE = $(if $(RELEASE),$(IMAGE),target/image/test.tar)
PAUSE_IMAGE := $(CONTAINERS)/pause.tar

.PHONY: help
help: ## List the commands
	@awk -F ':.*## ' '/^[a-z0-9-]+:.*## / { printf "  make %-14s %s\n", $$1, $$2 }' $(MAKEFILE_LIST)

.PHONY: build
build: ## Build the program: target/release/node-resource-advertiser
	cargo build --release --locked

.PHONY: image
image: ## Make a container image without Docker, and list what is in it: target/image/
	@echo '==> building a static program'
	@cargo fetch --locked
	@RUSTFLAGS="$(IMAGE_RUSTFLAGS)" cargo build --release --locked --target $(TRIPLE) --bin $(PROGRAM)
	@echo '==> making the image'
	@mkdir -p target/image
	@$(ARCHIVE) --program target/$(TRIPLE)/release/$(PROGRAM) --output $(IMAGE)
	@cargo run --quiet --locked --package image -- bill --package $(PROGRAM) --target $(TRIPLE) --created $(SOURCE_DATE_EPOCH) \
		--linked glibc=$(lastword $(shell getconf GNU_LIBC_VERSION)) --linked rust-std=$(word 2,$(shell rustc --version)) --output $(IMAGE:.tar=.cdx.json)
	@ls -l --si $(IMAGE) $(IMAGE:.tar=.cdx.json)

.PHONY: crds
crds: ## Generate crds/, and the chart's copy, from the Rust types
	cargo run --quiet --locked -- crd > $(CRD)
	cargo run --quiet --locked -- crd --output json-schema > $(JSON_SCHEMA)
	cp $(CRD) $(CHART)/files/crd.yaml

.PHONY: chart-docs
chart-docs: ## Generate the table of values in the chart's README
	@$(VALUES_TABLE) $(abspath $(CHART))

.PHONY: manifests
manifests: $(TOOLS)/helm ## Render the chart into deploy/install.yaml
	@$(RENDER) > deploy/install.yaml

.PHONY: demo
demo: controlplane ## Start a real Kubernetes and walk through the story (KEEP=1 leaves it running)
	@echo '==> building the controller'
	@cargo build --locked --bin node-resource-advertiser
	@cargo run --quiet --locked --package harness --bin demo -- $(if $(KEEP),--keep)

# ---- Tests, the fast ones first.
.PHONY: test
test: lint test-unit deny test-chart test-gitops test-oracle test-image test-e2e test-kubelet test-cluster test-demo ## Run every test
	@echo '==> all tests passed'

.PHONY: lint
lint: ## Check format, clippy and the documentation
	@echo '==> cargo fmt --check'
	@cargo fmt --all --check
	@echo '==> cargo clippy'
	@cargo clippy --workspace --all-targets --locked -- -D warnings
	@echo '==> cargo doc'
	@RUSTDOCFLAGS='-D warnings' cargo doc --workspace --no-deps --locked --quiet

.PHONY: test-unit
test-unit: ## Run the tests that need no cluster
	@echo '==> unit tests'
	@cargo test --locked --lib --test it

.PHONY: deny
deny: $(CARGO_DENY) ## Check licences, bans and sources of all dependencies
	@echo '==> cargo deny'
	@$(CARGO_DENY) --log-level error --locked check bans licenses sources

.PHONY: test-chart
test-chart: tools ## Lint the chart and run its tests that need no cluster
	@echo '==> helm lint'
	@for values in $(CHART)/ci/*.yaml; do $(TOOLS)/helm lint --strict --quiet --values "$$values" $(CHART); done
	@echo '==> a Kubernetes that is too old'
	@! answer=$$($(TOOLS)/helm template $(CHART) --kube-version 1.29.9 2>&1) && grep 'requires kubeVersion' <<< "$$answer"
	@echo '==> helm-unittest'
	@$(TOOLS)/helm-unittest --strict $(CHART)
	@echo '==> what is generated from the chart'
	@$(VALUES_TABLE) --check $(abspath $(CHART))
	@diff -u deploy/install.yaml <($(RENDER)) || { echo 'deploy/install.yaml is not what the chart renders: run `make manifests`'; exit 1; }
	@echo '==> alerts and dashboard'
	@cd tests/tools && go test -vet=all -count=1 ./...

.PHONY: test-gitops
test-gitops: tools ## Test what GitOps tools make of a rule, and lint the CI job (no cluster)
	@echo '==> what GitOps tools make of a rule'
	@cd tests/gitops && go test -vet=all -count=1 ./...
	@echo '==> actionlint'
	@$(TOOLS)/actionlint -shellcheck= -pyflakes= examples/gitops/ci/github-actions.yaml

.PHONY: test-oracle
test-oracle: $(CONTROLPLANE)/oracle ## Compare quantities and names with Kubernetes' own parsers
	@echo "==> comparison with Kubernetes' own parsers"
	@cargo test --locked --test oracle

.PHONY: test-e2e
test-e2e: controlplane tools ## Run the tests against a real control plane
	@echo '==> the control plane harness'
	@cargo test --locked --package harness
	@echo '==> end-to-end tests'
	@cargo test --locked --test e2e

.PHONY: test-kubelet
test-kubelet: ## Run the tests on a real kubelet (root on Linux; elsewhere they are skipped)
	@if unshare --mount --propagation private sh -c 'mount --bind /tmp /var/lib && test -e $(CURDIR)/Makefile' 2> /dev/null; then \
		$(MAKE) test-kubelet-here; \
	else \
		echo '==> skipping the tests on a real kubelet: they take root on Linux, mount namespaces, and a checkout that is not in /var/lib'; \
	fi

.PHONY: test-kubelet-here
test-kubelet-here: controlplane $(KUBELET_BINARIES)
	@echo '==> tests on a real kubelet'
	@cargo test --locked --test kubelet -- --show-output

.PHONY: test-image
test-image: $(TOOLS)/crane image-for-tests ## Check that an image is well formed, and the same when made twice (RELEASE=1: that of make image)
	@echo '==> the image'
	@IMAGE=$(abspath $(TEST_IMAGE)) cargo test --locked --package image
	@$(TOOLS)/crane validate --tarball $(TEST_IMAGE)

.PHONY: image-for-tests
image-for-tests: $(if $(RELEASE),image,test-archive)
	@:

.PHONY: test-archive
test-archive:
	@echo '==> making an image for tests'
	@mkdir -p $(dir $(TEST_IMAGE))
	@cargo rustc --quiet --locked --bin $(PROGRAM) -- $(STATIC) -C strip=symbols
	@$(ARCHIVE) --program target/debug/$(PROGRAM) --output $(TEST_IMAGE)

.PHONY: test-cluster
test-cluster: ## Run the tests on a real one-node cluster (root on Linux; elsewhere they are skipped; RELEASE=1: with the image of make image)
	@if unshare --mount --net --pid --fork --mount-proc --propagation private sh -c \
		'mount --bind /tmp /var/lib && mount -t tmpfs tmpfs /run && ip link add name node0 type veth peer name outside0 && test -e $(CURDIR)/Makefile' 2> /dev/null; then \
		$(MAKE) test-cluster-here; \
	else \
		echo '==> skipping the tests on a real cluster: they take root on Linux, iproute2, mount, network and process namespaces, and a checkout that is not in /var/lib or /run'; \
	fi

.PHONY: test-cluster-here
test-cluster-here: controlplane $(CONTROLPLANE)/kubelet $(TOOLS)/helm $(CONTAINER_BINARIES) $(PAUSE_IMAGE) image-for-tests
	@echo '==> tests on a real cluster'
	@$(if $(SECCOMP),,echo "    without libseccomp's headers: no container has a seccomp filter")
	@IMAGE=$(abspath $(TEST_IMAGE)) PAUSE_IMAGE=$(abspath $(PAUSE_IMAGE)) SECCOMP=$(SECCOMP) cargo test --locked --test cluster -- --show-output

.PHONY: test-demo
test-demo: ## Run the demo as a test
	@echo '==> the demo'
	@$(MAKE) demo

.PHONY: bench
bench: controlplane ## Measure against the floor (NODES=1000 PAIRS=5), into target/bench/results.json
	@NODES=$(or $(NODES),1000) PAIRS=$(or $(PAIRS),5) cargo bench --locked --bench rollout

# ---- What the tests need.
.PHONY: controlplane
controlplane: $(CONTROLPLANE)/etcd $(KUBERNETES_BINARIES) ## Build etcd and Kubernetes into target/controlplane/bin/
	@:

$(KUBERNETES_BINARIES) $(CONTROLPLANE)/kubelet: $(MODULES)
	@echo "==> building $(@F) $(KUBERNETES) (the first one takes some minutes)"
	@$(GO_BUILD) k8s.io/kubernetes/cmd/$(@F)

$(CONTROLPLANE)/etcd: $(MODULES)
	@echo '==> building etcd'
	@$(GO_BUILD) go.etcd.io/etcd/server/v3

$(addprefix $(CONTROLPLANE)/,oracle fakeruntime deviceplugin): $(CONTROLPLANE)/%: tests/controlplane/%/main.go $(MODULES)
	@echo '==> building $* (see $<)'
	@$(GO_BUILD) ./$*

.PHONY: tools
tools: $(TOOL_BINARIES) $(MONITORING_CRDS) $(GITOPS_BINARIES) $(FLUX_CRDS) $(ARGO_CD_CRD) ## Build helm, Flux and other tools that tests need into target/tools/bin/
	@:

$(TOOL_BINARIES): $(TOOL_MODULES)
	@echo "==> building $(@F)"
	@cd tests/tools && $(TOOL_BUILD) $(PACKAGE)

$(GITOPS_BINARIES): $(GITOPS_MODULES)
	@echo "==> building $(@F)$(if $(filter kustomize-controller,$(@F)), (Flux; some minutes, once))"
	@cd tests/gitops && $(TOOL_BUILD) $(PACKAGE)

$(TOOLS)/health: $(wildcard tests/gitops/health/*.go)

$(FLUX_CRDS): $(GITOPS_MODULES)
	@mkdir -p $(@D)
	@cd tests/gitops && go mod download $(FLUX) && \
		install -m 644 "$$(go list -m -f '{{.Dir}}' $(FLUX))/config/crd/bases/$(@F)" $(abspath $@)
target/tools/gitops-crds/kustomize.%: FLUX := github.com/fluxcd/kustomize-controller
target/tools/gitops-crds/source.%: FLUX := github.com/fluxcd/source-controller

# Again where the version changes, which is in this file.
$(ARGO_CD_CRD): Makefile
	@mkdir -p $(@D)
	@dir=$$(cd tests/gitops && go mod download -json $(ARGO_CD) | sed -n 's/^\t"Dir": "\(.*\)",$$/\1/p') && \
		install -m 644 "$$dir/manifests/crds/application-crd.yaml" $@

$(MONITORING_CRDS): $(TOOL_MODULES)
	@mkdir -p $(@D)
	@cd tests/tools && go mod download $(PROMETHEUS_OPERATOR) && \
		install -m 644 "$$(go list -m -f '{{.Dir}}' $(PROMETHEUS_OPERATOR))/example/prometheus-operator-crd/$(@F)" $(abspath $@)

$(CONTAINERS)/bin/containerd $(CONTAINERS)/bin/containerd-shim-runc-v2 $(CONTAINERS)/bin/ctr: $(CONTAINER_MODULES)
	@echo '==> building $(@F)'
	@$(CONTAINER_BUILD) -tags 'no_btrfs no_devmapper no_zfs' github.com/containerd/containerd/v2/cmd/$(@F)

$(CNI_PLUGINS): $(CONTAINER_MODULES)
	@echo '==> building the CNI plugin $(@F)'
	@$(CONTAINER_BUILD) github.com/containernetworking/plugins/plugins/$(if $(filter host-local,$(@F)),ipam,main)/$(@F)

$(CONTAINERS)/bin/runc: $(CONTAINER_MODULES)
	@echo '==> building runc'
	@cd tests/containers && CGO_ENABLED=1 go build -ldflags '-s -w' -tags '$(if $(SECCOMP),seccomp)' -o $(abspath $@) github.com/opencontainers/runc

# What containerd starts: runc, or what keeps from it the seccomp profiles that it would refuse.
$(CONTAINERS)/bin/runtime: $(CONTAINERS)/bin/runc tests/containers/withoutseccomp/main.go
	@$(if $(SECCOMP),cp $< $@,$(CONTAINER_BUILD) ./withoutseccomp)

# Kubernetes' own, which holds a pod's namespaces, and which the examples run.
$(CONTAINERS)/pause: $(MODULES)
	@echo '==> building pause'
	@mkdir -p $(@D)
	@cd tests/controlplane && $(CC) -Os -static -s -DVERSION=3.10 -o $(abspath $@) "$$(go list -m -f '{{.Dir}}' k8s.io/kubernetes)/build/pause/linux/pause.c"

$(PAUSE_IMAGE): $(CONTAINERS)/pause
	@cargo run --quiet --locked --package image -- archive --created 0 --program $< --reference registry.k8s.io/pause:3.10 --output $@

$(CARGO_DENY):
	@echo '==> building cargo-deny $(CARGO_DENY_VERSION) (some minutes, once)'
	@cargo install --quiet --locked --debug --root $(dir $(@D)) --target-dir target/tools/build --version $(CARGO_DENY_VERSION) cargo-deny

.PHONY: clean
clean: ## Delete everything that was built
	rm -rf target
