package installs

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// Kustomize, and with it Flux, fails on two objects with the same identity; Argo CD keeps the last.
func TestNoObjectIsRenderedTwice(t *testing.T) {
	eachVariant(t, func(t *testing.T, rendered string) {
		seen := map[string]bool{}
		for _, object := range decode(t, rendered) {
			if seen[object.identity()] {
				t.Errorf("%s is rendered twice", object.identity())
			}
			seen[object.identity()] = true
		}
	})
}

// Inventories and owners are annotations in many clusters.
func TestCommonAnnotationsAndLabelsAreOnEveryObject(t *testing.T) {
	args := []string{"--values", inProject(t, controller+"/ci/everything-values.yaml"), "--set", "prune.enabled=true,extraObjects=null"}
	for _, kind := range optionalKinds {
		args = append(args, "--api-versions", kind)
	}
	for _, helm := range helms {
		objects := decode(t, render(t, helm, controller, args...))
		if len(objects) < 20 {
			t.Errorf("only %d objects", len(objects))
		}
		for _, object := range objects {
			if object.text("metadata", "annotations", "example.com/contact") != "platform@example.com" {
				t.Errorf("%s lacks a common annotation", object.identity())
			}
			if object.text("metadata", "labels", "example.com/team") != "platform" {
				t.Errorf("%s lacks a common label", object.identity())
			}
		}
	}
}

// YAML reads a name such as 123 or 1e3 as a number unless it is quoted.
func TestNamesThatLookLikeNumbersAreStrings(t *testing.T) {
	args := []string{"--namespace", "123", "--set-string", "leaderElection.leaseName=1e3,serviceAccount.name=0x1", "--set", "prune.enabled=true"}
	for _, object := range decode(t, render(t, helms[0], controller, args...)) {
		checkStrings(t, object.identity(), map[string]any(object))
	}
}

// Checks the string fields of every kind of the chart.
func checkStrings(t *testing.T, path string, value any) {
	t.Helper()
	names := map[string]bool{"name": true, "namespace": true, "value": true, "serviceAccountName": true}
	switch value := value.(type) {
	case map[string]any:
		for key, value := range value {
			path := path + "." + key
			_, isNumber := value.(int)
			_, isFloat := value.(float64)
			if names[key] && (isNumber || isFloat) {
				t.Errorf("%s is %v, a %T", path, value, value)
			}
			if values, ok := value.([]any); ok && key == "resourceNames" {
				for _, name := range values {
					if _, ok := name.(string); !ok {
						t.Errorf("%s has %v, a %T", path, name, name)
					}
				}
			}
			checkStrings(t, path, value)
		}
	case []any:
		for index, value := range value {
			checkStrings(t, fmt.Sprintf("%s[%d]", path, index), value)
		}
	}
}

// A tool that renders without a cluster and applies the result ignores hooks: each would be an ordinary object, and
// the Job would withdraw everything as soon as it is installed.
func TestRenderingWithoutClusterYieldsNoHooks(t *testing.T) {
	eachVariant(t, func(t *testing.T, rendered string) {
		for _, object := range decode(t, rendered) {
			if hooks := object.hooks(); hooks != nil {
				t.Errorf("%s is the hook %v", object.identity(), hooks)
			}
		}
	})
}

// If the account's name does not contain the chart's, the policy also matches its namespace.
func TestPolicyFollowsTheAccountIntoAnotherNamespace(t *testing.T) {
	args := []string{"--set", "namespaceOverride=platform,serviceAccount.create=false,serviceAccount.name=other"}
	for _, helm := range helms {
		rendered, err := template(t, helm, controller, args...)
		if err != nil {
			t.Fatal(err)
		}
		if !strings.Contains(rendered, "system:serviceaccount:platform:other") {
			t.Error("the account is not confined")
		}
	}
}

// A parent chart may name its dependency as it likes, and Helm then renders it as a chart of that name.
func TestPoliciesOfAnAliasedChartConfineItsOwnAccountOnly(t *testing.T) {
	folder := filepath.Join(t.TempDir(), "platform")
	if err := os.CopyFS(filepath.Join(folder, "charts/node-resource-advertiser"), os.DirFS(inProject(t, controller))); err != nil {
		t.Fatal(err)
	}
	chart := "{apiVersion: v2, name: platform, version: 0.1.0, dependencies: [{name: node-resource-advertiser, version: '*', alias: node}]}"
	if err := os.WriteFile(filepath.Join(folder, "Chart.yaml"), []byte(chart), 0o600); err != nil {
		t.Fatal(err)
	}
	for _, helm := range helms {
		rendered, err := templateOf(t, helm, folder)
		if err != nil {
			t.Fatal(err)
		}
		own := "request.userInfo.username == 'system:serviceaccount:advertising:platform-node'"
		if strings.Contains(rendered, "username.matches") || !strings.Contains(rendered, own) {
			t.Errorf("%s: other accounts are confined, or not this one", helm)
		}
	}
}
