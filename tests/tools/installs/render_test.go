// Package installs tests how installation tools render the charts, without a cluster: both versions of Helm,
// Kustomize, Flux's post-renderer, and Argo CD's rules.
package installs

import (
	"bytes"
	"errors"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	"go.yaml.in/yaml/v3"
)

const (
	controller = "charts/node-resource-advertiser"
	rules      = "charts/node-resource-advertiser-rules"
)

// The kinds that a chart renders only if the cluster serves them.
var optionalKinds = []string{
	"admissionregistration.k8s.io/v1/MutatingAdmissionPolicy",
	"noderesource.dev/v1alpha1/NodeExtendedResource",
	"monitoring.coreos.com/v1/PodMonitor",
	"monitoring.coreos.com/v1/ServiceMonitor",
	"monitoring.coreos.com/v1/PrometheusRule",
}

// Each version of Helm, by its folder.
var helms = []string{"target/tools/bin/helm", "target/tools/helm3/helm"}

type object map[string]any

func (o object) at(path ...string) any {
	var value any = map[string]any(o)
	for _, key := range path {
		mapping, _ := value.(map[string]any)
		value = mapping[key]
	}
	return value
}

func (o object) text(path ...string) string {
	text, _ := o.at(path...).(string)
	return text
}

// The identity of an object for API servers and GitOps tools.
func (o object) identity() string {
	return strings.Join([]string{o.groupKind(), o.text("metadata", "namespace"), o.text("metadata", "name")}, "|")
}

func (o object) groupKind() string {
	group, _, found := strings.Cut(o.text("apiVersion"), "/")
	if !found {
		group = ""
	}
	return group + "|" + o.text("kind")
}

func (o object) hooks() []string {
	hooks := o.text("metadata", "annotations", "helm.sh/hook")
	if hooks == "" {
		return nil
	}
	return strings.Split(hooks, ",")
}

func inProject(t *testing.T, path string) string {
	t.Helper()
	absolute, err := filepath.Abs(filepath.Join("../../..", path))
	if err != nil {
		t.Fatal(err)
	}
	return absolute
}

// Renders a chart as its documents describe, with a release of its name.
func render(t *testing.T, helm, chart string, args ...string) string {
	t.Helper()
	output, err := template(t, helm, chart, args...)
	if err != nil {
		t.Fatalf("%s template %s %q: %v", helm, chart, args, err)
	}
	return output
}

// Renderings that several tests use, by their arguments.
var rendered sync.Map

func renderOnce(t *testing.T, helm, chart string, args ...string) string {
	t.Helper()
	once, _ := rendered.LoadOrStore(strings.Join(append([]string{helm, chart}, args...), " "), new(rendering))
	rendering := once.(*rendering)
	rendering.Do(func() { rendering.text, rendering.err = template(t, helm, chart, args...) })
	if rendering.err != nil {
		t.Fatalf("%s template %s %q: %v", helm, chart, args, rendering.err)
	}
	return rendering.text
}

type rendering struct {
	sync.Once
	text string
	err  error
}

func template(t *testing.T, helm, chart string, args ...string) (string, error) {
	t.Helper()
	return templateOf(t, helm, inProject(t, chart), args...)
}

// Renders a chart in any folder.
func templateOf(t *testing.T, helm, folder string, args ...string) (string, error) {
	t.Helper()
	if _, err := os.Stat(inProject(t, helm)); err != nil {
		t.Fatalf("%v: run `make tools`", err)
	}
	command := exec.Command(inProject(t, helm), append([]string{
		"template", filepath.Base(folder), folder, "--namespace", "advertising", "--kube-version", "1.37.0"}, args...)...)
	home := t.TempDir()
	for _, name := range []string{"HELM_CACHE_HOME", "HELM_CONFIG_HOME", "HELM_DATA_HOME"} {
		command.Env = append(command.Environ(), name+"="+home)
	}
	var stderr bytes.Buffer
	command.Stderr = &stderr
	output, err := command.Output()
	if err != nil {
		err = errors.New(stderr.String())
	}
	return string(output), err
}

// Decodes documents, which may not contain duplicate keys.
func decode(t *testing.T, text string) []object {
	t.Helper()
	decoder := yaml.NewDecoder(strings.NewReader(text))
	var objects []object
	for {
		var decoded map[string]any
		err := decoder.Decode(&decoded)
		if errors.Is(err, io.EOF) {
			return objects
		}
		if err != nil {
			t.Fatalf("%v in\n%s", err, text)
		}
		if decoded != nil {
			objects = append(objects, object(decoded))
		}
	}
}

func find(t *testing.T, objects []object, kind, name string) object {
	t.Helper()
	for _, object := range objects {
		if object.text("kind") == kind && object.text("metadata", "name") == name {
			return object
		}
	}
	t.Fatalf("there is no %s %s", kind, name)
	return nil
}

// Calls `check` for each rendering of each chart's ci/ values, including hooks.
func eachVariant(t *testing.T, check func(t *testing.T, rendered string)) {
	t.Helper()
	for _, chart := range []string{controller, rules} {
		values, err := filepath.Glob(inProject(t, chart+"/ci/*.yaml"))
		if err != nil || len(values) == 0 {
			t.Fatalf("%s/ci has no values: %v", chart, err)
		}
		for _, values := range values {
			for _, helm := range helms {
				for cluster, kinds := range map[string][]string{"no cluster": nil, "every kind": optionalKinds} {
					name := strings.Join([]string{filepath.Base(chart), filepath.Base(values), filepath.Dir(helm), cluster}, ", ")
					t.Run(name, func(t *testing.T) {
						t.Parallel()
						args := []string{"--values", values}
						for _, kind := range kinds {
							args = append(args, "--api-versions", kind)
						}
						check(t, renderOnce(t, helm, chart, args...))
					})
				}
			}
		}
	}
}
