package installs

import (
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"sigs.k8s.io/kustomize/api/krusty"
	"sigs.k8s.io/kustomize/api/types"
	"sigs.k8s.io/kustomize/kyaml/filesys"
)

// Builds a kustomization of these files, by name.
func kustomize(t *testing.T, files map[string]string) (string, error) {
	t.Helper()
	folder := t.TempDir()
	for name, text := range files {
		if err := os.WriteFile(filepath.Join(folder, name), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	return build(folder, "")
}

// Builds a folder as `kubectl kustomize` does, or as `kustomize build --enable-helm` if helm is given.
func build(folder, helm string) (string, error) {
	options := krusty.MakeDefaultOptions()
	options.LoadRestrictions = types.LoadRestrictionsNone
	if helm != "" {
		options.PluginConfig = types.EnabledPluginConfig(types.BploUseStaticallyLinked)
		options.PluginConfig.HelmConfig = types.HelmConfig{Enabled: true, Command: helm}
	}
	built, err := krusty.MakeKustomizer(options).Run(filesys.MakeFsOnDisk(), folder)
	if err != nil {
		return "", err
	}
	text, err := built.AsYaml()
	return string(text), err
}

// Flux's helm-controller always has a post-renderer: internal/postrender at v1.6.3 loads every document, hooks too,
// into Kustomize, and labels them. So does a post-renderer that runs Kustomize in any Helm 4.
func TestFluxPostRendersEveryVariant(t *testing.T) {
	eachVariant(t, func(t *testing.T, rendered string) {
		_, err := kustomize(t, map[string]string{
			"rendered.yaml": rendered,
			"kustomization.yaml": `
resources: [rendered.yaml]
labels:
  - pairs: {helm.toolkit.fluxcd.io/name: advertiser, helm.toolkit.fluxcd.io/namespace: advertising}
`,
		})
		if err != nil {
			t.Error(err)
		}
	})
}

// Kustomize's own helmCharts, with hooks and all: without `skipHooks`, which is false by default.
func TestKustomizeInflatesEveryVariant(t *testing.T) {
	for _, helm := range helms {
		for _, hooks := range []string{"skipHooks: true", "skipHooks: false"} {
			t.Run(filepath.Dir(helm)+", "+hooks, func(t *testing.T) {
				t.Parallel()
				example, err := os.ReadFile(inProject(t, "examples/gitops/kustomize/chart/kustomization.yaml"))
				if err != nil {
					t.Fatal(err)
				}
				published := regexp.MustCompile(`    repo: oci://ghcr\.io/noderesource/charts\n    version: \S+\n`)
				if !published.Match(example) {
					t.Fatalf("no published chart in %s", example)
				}
				local := strings.ReplaceAll(string(published.ReplaceAll(example, nil)), "skipHooks: true", hooks)
				kustomization := "helmGlobals: {chartHome: " + inProject(t, "charts") + "}\n" + local
				folder := t.TempDir()
				namespace, err := os.ReadFile(inProject(t, "examples/gitops/kustomize/chart/namespace.yaml"))
				if err != nil {
					t.Fatal(err)
				}
				for name, text := range map[string]string{"kustomization.yaml": kustomization, "namespace.yaml": string(namespace)} {
					if err := os.WriteFile(filepath.Join(folder, name), []byte(text), 0o600); err != nil {
						t.Fatal(err)
					}
				}
				built, err := build(folder, inProject(t, helm))
				if err != nil {
					t.Fatal(err)
				}
				objects := decode(t, built)
				for _, object := range objects {
					if object.hooks() != nil {
						t.Errorf("%s is a hook", object.identity())
					}
				}
				deployment := find(t, objects, "Deployment", "node-resource-advertiser")
				if deployment.text("metadata", "namespace") != "platform" || deployment.at("spec", "replicas") != 3 {
					t.Errorf("%v", deployment)
				}
				find(t, objects, "MutatingAdmissionPolicy", "node-resource-advertiser-protect")
			})
		}
	}
}

// An overlay does not change namespaces inside strings, so the pods read theirs at run time.
func TestOverlaysOfDeployKeepTheirReferences(t *testing.T) {
	for name, field := range map[string]string{
		"namespace": "namespace: platform", "prefix": "namePrefix: prod-", "suffix": "nameSuffix: -y",
		"all": "namespace: platform\nnamePrefix: prod-\nnameSuffix: -y",
	} {
		t.Run(name, func(t *testing.T) {
			folder := t.TempDir()
			if err := os.CopyFS(filepath.Join(folder, "deploy"), os.DirFS(inProject(t, "deploy"))); err != nil {
				t.Fatal(err)
			}
			overlay := "resources: [deploy, deploy/protect.yaml]\n" + field + "\n"
			if err := os.WriteFile(filepath.Join(folder, "kustomization.yaml"), []byte(overlay), 0o600); err != nil {
				t.Fatal(err)
			}
			built, err := build(folder, "")
			if err != nil {
				t.Fatal(err)
			}
			objects := decode(t, built)
			checkPodNamespace(t, objects)
			checkBindings(t, objects)
		})
	}
}

// Each binding names a policy that exists.
func checkBindings(t *testing.T, objects []object) {
	t.Helper()
	bindings := 0
	for _, object := range objects {
		if kind, found := strings.CutSuffix(object.text("kind"), "AdmissionPolicyBinding"); found {
			find(t, objects, kind+"AdmissionPolicy", object.text("spec", "policyName"))
			bindings++
		}
	}
	if bindings < 3 {
		t.Errorf("only %d bindings of policies", bindings)
	}
}

func checkPodNamespace(t *testing.T, objects []object) {
	t.Helper()
	for _, object := range objects {
		if object.text("kind") != "Deployment" {
			continue
		}
		containers, _ := object.at("spec", "template", "spec", "containers").([]any)
		container, _ := containers[0].(map[string]any)
		variables, _ := container["env"].([]any)
		for _, variable := range variables {
			variable, _ := variable.(map[string]any)
			from, _ := variable["valueFrom"].(map[string]any)
			field, _ := from["fieldRef"].(map[string]any)
			if variable["name"] == "NRA_LEADER_ELECT_RESOURCE_NAMESPACE" && field["fieldPath"] == "metadata.namespace" {
				return
			}
		}
	}
	t.Error("no pod takes the Lease's namespace from its own")
}

// The example moves back into `default` what `namespace` has moved out.
func TestOverlayExampleLeavesEventsInDefault(t *testing.T) {
	built, err := build(inProject(t, "examples/gitops/kustomize/controller"), "")
	if err != nil {
		t.Fatal(err)
	}
	objects := decode(t, built)
	checkPodNamespace(t, objects)
	const events = "node-resource-advertiser-events"
	for _, kind := range []string{"Role", "RoleBinding"} {
		if namespace := find(t, objects, kind, events).text("metadata", "namespace"); namespace != "default" {
			t.Errorf("%s %s is in %s", kind, events, namespace)
		}
	}
	for _, object := range objects {
		subjects, _ := object.at("subjects").([]any)
		for _, subject := range subjects {
			if subject, _ := subject.(map[string]any); subject["namespace"] != "platform" {
				t.Errorf("%s binds %v", object.identity(), subject)
			}
		}
	}
}
