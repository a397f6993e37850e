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
# Karpenter, which creates Node objects without a cloud, and kwok, which plays their kubelets: see tests/karpenter/go.mod.
# Both programs have the name kwok.
KARPENTER := target/karpenter
KARPENTER_CRDS := $(addprefix pkg/apis/crds/karpenter.sh_,nodeclaims.yaml nodeoverlays.yaml nodepools.yaml) \
	kwok/apis/crds/karpenter.kwok.sh_kwoknodeclasses.yaml
KWOK_STAGES := $(addprefix kustomize/stage/,node/fast/node-initialize.yaml \
	node/heartbeat-with-lease/node-heartbeat-with-lease.yaml pod/fast/pod-ready.yaml pod/fast/pod-delete.yaml)

.PHONY: karpenter
karpenter: ## Build Karpenter and kwok into target/karpenter/ (some minutes, once)
	@$(STEP) bash -ec 'hack/go-build.sh karpenter $(KARPENTER)/provisioner -- sigs.k8s.io/karpenter/kwok; \
		hack/go-build.sh karpenter $(KARPENTER)/kubelets -- sigs.k8s.io/kwok/cmd/kwok; \
		hack/crds.sh $(KARPENTER)/crds tests/karpenter sigs.k8s.io/karpenter $(KARPENTER_CRDS); \
		hack/crds.sh $(KARPENTER)/stages tests/karpenter sigs.k8s.io/kwok $(KWOK_STAGES)'
