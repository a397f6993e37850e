# The control plane: real Kubernetes from published Go modules, see tests/controlplane/go.mod.
KUBERNETES := 1.37.1
CONTROLPLANE := target/controlplane/bin
KUBERNETES_PROGRAMS := kube-apiserver kube-controller-manager kube-scheduler kubectl kubelet kubemark
VERSION_PACKAGE := k8s.io/component-base/version
KUBERNETES_LDFLAGS := -s -w -X $(VERSION_PACKAGE).gitVersion=v$(KUBERNETES) \
	-X $(VERSION_PACKAGE).gitMajor=$(word 1,$(subst ., ,$(KUBERNETES))) \
	-X $(VERSION_PACKAGE).gitMinor=$(word 2,$(subst ., ,$(KUBERNETES))) \
	-X k8s.io/client-go/pkg/version.gitVersion=v$(KUBERNETES)

##@ What the tests need

.PHONY: controlplane
controlplane: ## Build etcd and Kubernetes into target/controlplane/bin/
	@$(STEP) hack/go-build.sh controlplane $(CONTROLPLANE) -ldflags '$(KUBERNETES_LDFLAGS)' -- \
		$(addprefix k8s.io/kubernetes/cmd/,$(KUBERNETES_PROGRAMS)) ./etcd

# Other programs for tests: Kubernetes' parsers, a container runtime and a device plugin.
.PHONY: controlplane-extras
controlplane-extras:
	@$(STEP) hack/go-build.sh controlplane $(CONTROLPLANE) -- ./oracle ./deviceplugin ./fakeruntime
