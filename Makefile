# One command a purpose: `make help` lists them. Everything that is built lands in target/.

SHELL := /bin/bash
.SHELLFLAGS := -euo pipefail -c
.DEFAULT_GOAL := help
MAKEFLAGS += --no-builtin-rules --no-print-directory

CHART := charts/node-resource-advertiser
RULES_CHART := charts/node-resource-advertiser-rules
CRD := crds/noderesource.dev_nodeextendedresources.yaml
# In a folder of its own, which `kubectl apply -f crds/` leaves alone.
JSON_SCHEMA := crds/json-schema/nodeextendedresource_v1alpha1.json

# The same for everything that Go builds and tests: what differs is compiled anew, for minutes. Without the
# debugger's tables, which no program here keeps.
export CGO_ENABLED := 0
export GOFLAGS := -trimpath -buildvcs=false -gcflags=all=-dwarf=false
# Before each command that takes a while.
STEP = hack/step.sh $@

##@ General

.PHONY: help
help: ## List the commands
	@awk -F ':.*## ' '/^##@ / { printf "\n%s\n", substr($$0, 5) } \
		/^[a-z0-9-]+:.*## / { printf "  make %-14s %s\n", $$1, $$2 }' $(MAKEFILE_LIST)

.PHONY: demo
demo: controlplane ## Start a real Kubernetes and walk through the story (KEEP=1 leaves it running)
	@cargo test --workspace --locked --no-run --quiet
	@target/debug/demo $(if $(KEEP),--keep)

.PHONY: clean
clean: ## Delete everything that was built
	rm -rf target

##@ Build

.PHONY: build
build: ## Build the program: target/release/node-resource-advertiser
	cargo build --release --locked

.PHONY: image
image: ## Make a container image without Docker, and list what is in it: target/image/
	@$(STEP) hack/image.sh release

.PHONY: bench
bench: controlplane ## Measure against the floor (NODES=1000 PAIRS=5 ONLY=policy), into target/bench/results.json
	@NODES=$(or $(NODES),1000) PAIRS=$(or $(PAIRS),5) ONLY=$(ONLY) cargo bench --locked --bench rollout

# Without optimization, which the API server alone needs: that is what it measures.
.PHONY: bench-protection
bench-protection: controlplane ## Measure what the policy against a kubelet's reset costs the API server (NODES=200 ROUNDS=10)
	@NODES=$(NODES) ROUNDS=$(ROUNDS) cargo bench --locked --profile dev --bench protection

# Memory and times are those of the release build; PROFILE=dev is compiled sooner.
.PHONY: soak
soak: controlplane ## Run two replicas under load and disruptions, into target/soak/ (MINUTES=60 NODES=200 SEED=1 PROFILE=bench)
	@MINUTES=$(MINUTES) NODES=$(NODES) SEED=$(SEED) cargo bench --locked --profile $(or $(PROFILE),bench) --bench soak

##@ Generate

.PHONY: crds
crds: ## Generate crds/, and what the charts have of it, from the Rust types
	cargo run --quiet --locked -- crd > $(CRD)
	cargo run --quiet --locked -- crd --output json-schema > $(JSON_SCHEMA)
	cp $(CRD) $(CHART)/files/crd.yaml
	cd tests/tools && go run ./ruleschema "$$OLDPWD"

.PHONY: chart-docs
chart-docs: ## Generate the tables of values in the charts' READMEs
	@cd tests/tools && for chart in $(CHART) $(RULES_CHART); do go run ./valuestable "$$OLDPWD/$$chart"; done

.PHONY: manifests
manifests: tools ## Render the chart into deploy/
	@for name in install protect; do hack/manifests.sh $$name > deploy/$$name.yaml; done

include hack/test.mk hack/kubernetes.mk hack/containers.mk hack/tools.mk
