# One target per purpose: `make help` lists them. All build output is in target/.

SHELL := /bin/bash
.SHELLFLAGS := -euo pipefail -c
.DEFAULT_GOAL := help
MAKEFLAGS += --no-builtin-rules --no-print-directory

CHART := charts/node-resource-advertiser
RULES_CHART := charts/node-resource-advertiser-rules
CRD := crds/noderesource.dev_nodeextendedresources.yaml
# In its own folder, which `kubectl apply -f crds/` skips.
JSON_SCHEMA := crds/json-schema/nodeextendedresource_v1alpha1.json

# The same flags for everything that Go builds and tests: other flags recompile everything, which takes minutes. No
# DWARF tables, which no program here keeps.
export CGO_ENABLED := 0
export GOFLAGS := -trimpath -buildvcs=false -gcflags=all=-dwarf=false
# Prefix of each command that takes a while.
STEP = hack/step.sh $@

##@ General

.PHONY: help
help: ## List the commands
	@awk -F ':.*## ' '/^##@ / { printf "\n%s\n", substr($$0, 5) } \
		/^[a-z0-9-]+:.*## / { printf "  make %-14s %s\n", $$1, $$2 }' $(MAKEFILE_LIST)

# Kubernetes takes minutes to build: with CONTEXT or KUBEBUILDER_ASSETS the demo uses one that exists.
DEMO = $(if $(KUBEBUILDER_ASSETS),CONTROLPLANE_BIN='$(KUBEBUILDER_ASSETS)') target/debug/demo \
	$(if $(CONTEXT),--context '$(CONTEXT)') $(if $(KEEP),--keep)

.PHONY: demo
demo: $(if $(CONTEXT)$(KUBEBUILDER_ASSETS),,controlplane) ## Run the demo on a real control plane, or in your cluster (CONTEXT=name; KUBEBUILDER_ASSETS=folder; KEEP=1 keeps it running)
	@echo 'Compiling the program and the demo, which takes minutes the first time.' >&2
	@cargo build --workspace --locked --quiet --bin node-resource-advertiser --bin demo
	@$(DEMO)

.PHONY: demo-autoscaler
demo-autoscaler: controlplane karpenter ## Run the demo with Karpenter: from no node to a running pod whose resource no cloud knows
	@echo 'Compiling the program and the demo, which takes minutes the first time.' >&2
	@cargo build --workspace --locked --quiet --bin node-resource-advertiser --bin demo
	@target/debug/demo --karpenter

.PHONY: clean
clean: ## Delete all build output
	rm -rf target

##@ Build

.PHONY: build
build: ## Build the program: target/release/node-resource-advertiser
	cargo build --release --locked

.PHONY: image
image: cargo-about cargo-auditable ## Build a container image for this machine without Docker: target/image.tar
	@$(STEP) bash -ec 'hack/licenses.sh target/licenses/image; \
		hack/image.sh target/image.tar target/licenses/image "$$(hack/program.sh host)"'

.PHONY: program
program: cargo-auditable ## Build the program as a release has it (TARGET=aarch64-unknown-linux-gnu)
	@$(STEP) hack/program.sh $(or $(TARGET),host)

.PHONY: release
release: tools cargo-about cargo-auditable ## Build all that a release publishes, for every platform: target/dist/
	@$(STEP) hack/release.sh release

.PHONY: dist-digest
dist-digest: ## Print the digest of what make release has built, as an output of a workflow's step
	@sha256sum target/dist/SHA256SUMS | sed 's/ .*//; s/^/sums=/'

.PHONY: check-tag
check-tag: ## Check that the tag of a workflow may become a release: on main, signed and tested
	@hack/check-tag.sh

.PHONY: publish
publish: publish-tools ## Sign target/dist/ and push it (REGISTRY=ghcr.io/noderesource; COSIGN_KEY=file outside a workflow)
	@$(STEP) hack/publish.sh target/dist $(or $(REGISTRY),ghcr.io/noderesource) $(SUMS)

.PHONY: github-release
github-release: ## Create the release of the current tag on GitHub, from target/dist/ (in a workflow)
	@hack/github-release.sh target/dist

.PHONY: cross-compilers
cross-compilers: ## Install the compilers for other platforms that a release needs (root on Debian)
	@for target in {x86_64,aarch64}-unknown-linux-gnu x86_64-pc-windows-gnu; do hack/linker.sh $$target; done

.PHONY: bench
bench: controlplane ## Compare the controller with the baseline (NODES=1000 PAIRS=5 ONLY=nodes|policy|pods|overload|watch, with PODS=15000), into target/bench/results.json
	@NODES=$(or $(NODES),1000) PAIRS=$(or $(PAIRS),5) ONLY=$(ONLY) cargo bench --locked --bench rollout

# The dev profile is enough: it measures the API server only.
.PHONY: bench-protection
bench-protection: controlplane ## Measure the protection policy's cost in the API server (NODES=200 ROUNDS=10)
	@NODES=$(NODES) ROUNDS=$(ROUNDS) cargo bench --locked --profile dev --bench protection

.PHONY: bench-protocol
bench-protocol: controlplane ## Compare nodes as JSON with nodes as protobuf (NODES=1000 ROUNDS=5)
	@NODES=$(NODES) ROUNDS=$(ROUNDS) cargo bench --locked --bench protocol

# Instructions do not depend on the machine or its load; memory hardly does.
.PHONY: bench-scale
bench-scale: ## Measure memory and instructions of the reconciler alone (NODES="1000 10000 100000" RULES="1 10 100 1000"), into target/bench/scale.json
	@hack/require.sh valgrind valgrind libc6-dbg
	@NODES="$(NODES)" RULES="$(RULES)" cargo bench --locked --profile dev --bench scale

.PHONY: bench-answers
bench-answers: ## Compare `kubectl ner` in a large cluster with decoding its lists (NODES=5000 PODS=150000 PAIRS=3), into target/bench/answers.json
	@hack/require.sh valgrind valgrind libc6-dbg
	@NODES=$(NODES) PODS=$(PODS) PAIRS=$(PAIRS) cargo bench --locked --bench answers

# Memory and times are those of the release build; PROFILE=dev compiles faster.
.PHONY: soak
soak: controlplane ## Run two replicas under load and disruptions, into target/soak/ (MINUTES=60 NODES=200 SEED=1 PROFILE=bench)
	@MINUTES=$(MINUTES) NODES=$(NODES) SEED=$(SEED) cargo bench --locked --profile $(or $(PROFILE),bench) --bench soak

##@ Generate

.PHONY: crds
crds: ## Generate crds/ and the charts' copies from the Rust types
	cargo run --quiet --locked -- crd > $(CRD)
	cargo run --quiet --locked -- crd --output json-schema > $(JSON_SCHEMA)
	cp $(CRD) $(CHART)/files/crd.yaml
	cd tests/tools && go run ./ruleschema "$$OLDPWD" && go run ./apireference "$$OLDPWD"

.PHONY: recording
recording: controlplane ## Record what README shows: docs/images/demo.cast and docs/images/demo.svg
	@cargo build --workspace --locked --quiet --bin node-resource-advertiser --bin demo
	@target/debug/demo --record docs/images/demo

.PHONY: dashboard
dashboard: build-tests controlplane ## Record twelve minutes of metrics, and draw the dashboard: docs/images/dashboard.svg
	@$(CARGO_TEST) --test e2e -- --ignored dashboard::
	@cd tests/tools/alerts && UPDATE_GOLDEN=1 GOWORK=off go test -vet=off -count=1 ./...

.PHONY: chart-docs
chart-docs: ## Generate the tables of values in the charts' READMEs
	@cd tests/tools && for chart in $(CHART) $(RULES_CHART); do go run ./valuestable "$$OLDPWD/$$chart"; done

WORKFLOWS := .github/workflows/*.yaml examples/gitops/ci/github-actions.yaml

.PHONY: pin-actions
pin-actions: ## Pin the actions of workflows to the commits of their versions (CHECK=1: only compare; needs github.com)
	@hack/pin-actions.sh $(if $(CHECK),check) $(WORKFLOWS)

.PHONY: manifests
manifests: tools ## Render the chart into deploy/
	@for name in install protect static/mutating/protect static/validating/confine; do \
		hack/manifests.sh $$name > deploy/$$name.yaml; done

include hack/test.mk hack/kubernetes.mk hack/containers.mk hack/tools.mk
