# The steps of `make test`, each of which can run alone. `cargo test` always gets the whole workspace: another
# selection would recompile dependencies with other features.
CARGO_TEST := cargo test --config hack/test-runner.toml --workspace --locked
# What `make release` builds, or has built with RELEASE=built; without RELEASE the same for the tests' build of the program.
DIST := $(if $(RELEASE),target/dist,target/dist-test)
TEST_IMAGE := $(DIST)/node-resource-advertiser-$(shell hack/version.sh)-image.tar
TEST := fmt clippy doc test-unit deny spelling test-chart test-oracle test-image test-conformance-quick test-e2e test-worlds test-demo test-karpenter test-cluster test-kubelet
# What proves a tool rather than this project: hack/changed.sh has the files that each depends on.
TEST_TOOLS := test-harness test-alerts test-gitops test-kyverno test-release
# Under another name: make runs a recipe that contains $(MAKE) even with `make -n`.
SELF := $(MAKE)
# The tests that take longest and need no cluster: random and explored worlds.
WORLDS := random exploration:: overload:: worlds:: shell::
SLOW := $(addprefix --skip ,$(WORLDS))
CORES := $(shell getconf _NPROCESSORS_ONLN)
# The end-to-end tests wait for most of their time: more of them than cores run at once, each with a control plane of up to
# a gigabyte.
GIGABYTES := $(shell awk '/^MemAvailable/ { print int($$2 / 1000000) + 1 }' /proc/meminfo 2> /dev/null || echo 16)
E2E_THREADS := $(shell echo $$((4 * $(CORES) < $(GIGABYTES) ? 4 * $(CORES) : $(GIGABYTES))))
# Those on a real kubelet measure latencies besides, and judge them by those of a bare client.
KUBELET_THREADS := $(shell echo $$((2 * $(CORES))))

##@ Test

.PHONY: check
check: ## Check an edit, within a minute: formatting, clippy, the fast tests that need no cluster, and 20 random worlds
	@hack/steps.sh $(SELF) fmt clippy test-fast

.PHONY: test
test: ## Run every test of this project, and print the time of each step
	@hack/steps.sh $(SELF) $(TEST)

.PHONY: test-all
test-all: ## Run every test, including those of the tools and of older versions of Kubernetes (hours without the cache)
	@hack/steps.sh $(SELF) $(TEST) $(TEST_TOOLS) test-versions

.PHONY: lint
lint: fmt clippy doc ## Check formatting, clippy and the documentation

.PHONY: fmt clippy doc
fmt:
	@$(STEP) cargo fmt --all --check

clippy:
	@$(STEP) cargo clippy --workspace --all-targets --locked -- -D warnings

# --examples, although there are none, gives dependencies the same features as clippy.
doc: export RUSTDOCFLAGS := -D warnings
doc:
	@$(STEP) cargo doc --workspace --no-deps --lib --bins --examples --locked --quiet

.PHONY: build-tests
build-tests:
	@$(STEP) hack/build-tests.sh

.PHONY: test-unit
test-unit: build-tests ## Run the tests that need no cluster, but for random and explored worlds
	@$(STEP) $(CARGO_TEST) --lib --test offline --test fuzz -- $(SLOW)

# Beside the tests that wait for clusters, they take the time that is left.
.PHONY: test-worlds
test-worlds: build-tests ## Run random and explored worlds
	@$(STEP) nice $(CARGO_TEST) --lib --test offline --test fuzz -- $(WORLDS)

.PHONY: test-fast
test-fast:
	@$(STEP) bash -ec '$(CARGO_TEST) --quiet --lib --test offline -- $(SLOW); \
		$(CARGO_TEST) --quiet --lib -- twenty_random_worlds'

.PHONY: simulate
simulate: ## Run random worlds with faults against the reconciler (SEEDS=10000 SEED=0), and print the history of a failure
	@SEEDS=$(or $(SEEDS),10000) SEED=$(or $(SEED),0) hack/measured.sh simulate $(CARGO_TEST) --profile simulate --lib -- \
		--ignored --nocapture many_random_worlds

# Not a step of `make test`, which explores a part.
.PHONY: explore
explore: ## Explore small worlds completely: every order of events, with the planner and the reconciler (minutes)
	@$(STEP) bash -ec 'explore="$(CARGO_TEST) --profile simulate --lib"; \
		hack/measured.sh explore-planner $$explore planner::tests::exploration -- --include-ignored --show-output; \
		hack/measured.sh explore-reconciler $$explore reconciler::tests::exploration -- --include-ignored --show-output'

.PHONY: deny
deny: cargo-deny ## Check licenses, bans and sources of all dependencies
	@$(STEP) $(TOOLS)/cargo-deny --log-level error --locked check bans licenses sources

# Not a step of `make test`: an advisory published today must not fail a commit of yesterday.
.PHONY: advisories
advisories: cargo-deny ## Check all dependencies for security advisories (needs github.com)
	@$(STEP) $(TOOLS)/cargo-deny --log-level error --locked check advisories

# The configuration has the words that this project no longer uses.
.PHONY: spelling
spelling: typos ## Check spelling, and that no retired word is used
	@$(STEP) $(TOOLS)/typos --config .typos.toml

.PHONY: test-chart
test-chart: build-tests controlplane tools monitoring-crds ## Lint the charts, run their tests, and try random values on an API server
	@$(STEP) bash -ec 'hack/test-chart.sh; $(CARGO_TEST) --test e2e -- chart::random_values::'

# Both are large, and judge the chart rather than a commit.
.PHONY: lint-chart
lint-chart: tools ## Run linters on the rendered chart, and compare what they report with docs/linters.md (downloads them)
	@$(STEP) hack/lint-chart.sh

.PHONY: test-oracle
test-oracle: build-tests controlplane controlplane-extras ## Compare quantities, names, selectors and verdicts with Kubernetes' own (WHOLE=1: each whole quantity, for minutes)
	@$(STEP) $(CARGO_TEST) --test oracle $(if $(WHOLE),-- --include-ignored)

.PHONY: mutants
mutants: ## Plant bugs one by one, and report which layer of tests finds each (NAMES=…; an hour for all)
	@$(if $(NAMES),,hack/measured.sh mutants) hack/mutants.sh $(NAMES)

.PHONY: fuzz
fuzz: controlplane-extras ## Fuzz the parsers of untrusted input, guided by coverage (MINUTES=1 for each TARGET=, or for all)
	@$(if $(TARGET),,hack/measured.sh fuzz) hack/fuzz.sh $(or $(MINUTES),1) $(TARGET)

.PHONY: dist-for-tests
dist-for-tests: build-tests tools $(if $(RELEASE),cargo-about cargo-auditable)
	@$(STEP) $(if $(filter built,$(RELEASE)),hack/check-dist.sh $(DIST) $(SUMS),hack/release.sh $(if $(RELEASE),release,test))

.PHONY: test-image
test-image: dist-for-tests tools ## Check that images and charts are well formed and reproducible (RELEASE=1: those of make release)
	@$(STEP) bash -ec 'IMAGE=$$PWD/$(TEST_IMAGE) $(CARGO_TEST) --test oci; $(if $(RELEASE),,$(TOOLS)/crane validate --tarball $(TEST_IMAGE))'

.PHONY: test-e2e
test-e2e: build-tests controlplane controlplane-extras tools monitoring-crds example-crds ## Run the tests against a real control plane
	@$(STEP) $(CARGO_TEST) --test e2e -- --skip gitops:: --skip guard::kyverno:: --skip karpenter:: --skip chart::random_values:: --test-threads $(E2E_THREADS)

# What `make test` does with half of the memory and fewer rules.
.PHONY: test-attacks
test-attacks: build-tests controlplane controlplane-extras ## Attack the memory of the controller with as many rules, statuses and nodes as the chart is made for (minutes)
	@$(STEP) $(CARGO_TEST) --test e2e -- --ignored --show-output --test-threads 1 rules_memory::

# A test that has ever failed under load is repeated under load.
.PHONY: test-repeat
test-repeat: build-tests controlplane controlplane-extras tools monitoring-crds example-crds karpenter ## Repeat end-to-end tests, as many at once as in `make test`, while all cores are busy, until one fails (N=20 TESTS="outages:: standby::")
	@RUST_TEST_THREADS=$(E2E_THREADS) $(STEP) hack/test-repeat.sh $(or $(N),20) $(TESTS)

# The same few thousand operations each time.
.PHONY: test-conformance-quick
test-conformance-quick: build-tests controlplane
	@$(STEP) $(CARGO_TEST) --test conformance -- --show-output

.PHONY: test-conformance
test-conformance: build-tests controlplane ## Compare the model of the API server with a real one, with random operations (OPERATIONS=100000, SEED=…)
	@OPERATIONS=$(or $(OPERATIONS),100000) SEED=$(or $(SEED),$(shell date +%s)) \
		$(STEP) hack/measured.sh conformance $(CARGO_TEST) --test conformance -- --show-output

.PHONY: test-demo
test-demo: build-tests controlplane ## Run the demo as a test
	@$(STEP) target/debug/demo

# The tests in tests/e2e/karpenter.rs, and the demo with Karpenter.
.PHONY: test-karpenter
test-karpenter: build-tests controlplane tools karpenter ## Test the loop with Karpenter, from no node to a running pod
	@$(STEP) bash -ec '$(CARGO_TEST) --test e2e -- karpenter:: --show-output; target/debug/demo --karpenter'

.PHONY: test-kubelet
test-kubelet: build-tests controlplane controlplane-extras ## Run the tests on a real kubelet (root on Linux; elsewhere they are skipped)
	@$(STEP) hack/isolated.sh kubelet $(CARGO_TEST) --test kubelet -- --show-output --test-threads $(KUBELET_THREADS)

.PHONY: test-cluster
test-cluster: dist-for-tests controlplane tools containers pause ## Run the tests on a real one-node cluster (root on Linux; elsewhere they are skipped; RELEASE=1: with the image of make release)
	@$(STEP) hack/isolated.sh cluster hack/test-cluster.sh $(TEST_IMAGE) $(PAUSE_IMAGE)

.PHONY: test-upgrade
test-upgrade: dist-for-tests controlplane tools containers pause ## Upgrade from the version of a commit on a real one-node cluster, and roll back (FROM=<commit>; minutes)
	@$(STEP) hack/isolated.sh cluster hack/test-upgrade.sh "$(FROM)" $(TEST_IMAGE) $(PAUSE_IMAGE)

.PHONY: test-release
test-release: dist-for-tests controlplane signing-tools cargo-about cargo-auditable ## Publish a release to a registry, get it, verify it, and tamper with it (RELEASE=1: that of make release; RELEASE=built: that in target/dist)
	@$(STEP) bash -ec 'hack/licenses.sh target/licenses/tested; DIST=$(DIST) $(CARGO_TEST) --test release -- --show-output'

# No step of .ci/run, which ends sooner than this without the cache.
.PHONY: test-versions
test-versions: build-tests controlplane controlplane-extras tools ## Run the tests on older versions of Kubernetes (VERSIONS="1.30 1.36"; each is built once, in ten minutes)
	@$(STEP) hack/test-versions.sh $(VERSIONS)

# The tests that a user's first hour consists of; emulation is too slow for those that measure or restart.
.PHONY: test-arm64
test-arm64: build-tests controlplane cargo-auditable ## Run end-to-end tests with the program for arm64, under emulation elsewhere (minutes)
	@$(STEP) hack/test-arm64.sh $(or $(TESTS),drift:: lifecycle:: plan:: prune:: validate::)

.PHONY: test-harness
test-harness: build-tests controlplane ## Test the harness that boots control planes
	@$(STEP) $(CARGO_TEST) --test boot

.PHONY: test-alerts
test-alerts: ## Test the alerts and the dashboard on Prometheus's engine
	@$(STEP) bash -ec 'cd tests/tools/alerts && GOWORK=off go test -vet=off -count=1 ./...'

.PHONY: test-gitops
test-gitops: build-tests controlplane tools gitops-tools gitops-crds ## Test how GitOps tools evaluate a rule, and lint the CI job
	@$(STEP) bash -ec '(cd tests/gitops && GOWORK=off go test -vet=off -count=1 ./...); \
		$(TOOLS)/actionlint -shellcheck= -pyflakes= examples/gitops/ci/github-actions.yaml .github/workflows/*.yaml; \
		$(CARGO_TEST) --test e2e -- gitops::'

.PHONY: test-kyverno
test-kyverno: build-tests kyverno ## Test what Kyverno makes of the policies that guard prints
	@$(STEP) $(CARGO_TEST) --test e2e -- guard::kyverno::

# When steps overlap, these lines order the requested ones, in addition to their prerequisites. Cargo's steps block one
# another anyway; Go's steps run one by one, to finish sooner. Tests that wait for a cluster run in parallel with a
# compiler and with one another; those on a real kubelet measure a latency and run alone.
ifdef STEPS
asked = $(filter $(MAKECMDGOALS),$(1))
clippy: | $(call asked,fmt)
test-fast: | $(call asked,clippy)
doc: | $(call asked,clippy)
build-tests: | $(call asked,doc)
cargo-deny typos cargo-about: | $(call asked,test-unit)
typos: | $(if $(call asked,deny),cargo-deny)
cargo-about: | $(call asked,test-kubelet)
dist-for-tests: | $(call asked,test-unit)
controlplane: | tools
controlplane-extras: | controlplane
karpenter: | controlplane-extras
containers: | controlplane-extras $(if $(call asked,test-karpenter),karpenter)
test-conformance-quick test-e2e test-worlds test-demo test-karpenter test-cluster: | $(call asked,test-oracle deny spelling)
test-kubelet: | $(filter-out test-kubelet,$(call asked,$(TEST)))
test-harness gitops-tools test-alerts kyverno signing-tools: | $(call asked,test-kubelet)
test-versions: | $(call asked,$(TEST) $(TEST_TOOLS))
test-alerts: | $(if $(call asked,test-gitops),gitops-tools)
endif
