# The container runtime of a real node, from published Go modules: see tests/containers/go.mod.
CONTAINERS := target/containers
PAUSE_IMAGE := $(CONTAINERS)/pause.tar

.PHONY: containers
containers: ## Build containerd, runc and CNI plugins into target/containers/bin/
	@$(STEP) hack/isolated.sh cluster hack/containers.sh

.PHONY: pause
pause: build-tests
	@$(STEP) hack/isolated.sh cluster hack/pause.sh $(PAUSE_IMAGE)
