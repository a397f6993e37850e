package installs

import (
	"os"
	"path/filepath"
	"testing"

	"go.yaml.in/yaml/v3"
)

// What Flux and Argo CD would render from the examples.
func TestExamplesHaveValidChartValues(t *testing.T) {
	for example, path := range map[string][]string{
		"flux/controller.yaml":   {"spec", "values"},
		"argocd/controller.yaml": {"spec", "source", "helm", "valuesObject"},
	} {
		text, err := os.ReadFile(inProject(t, "examples/gitops/"+example))
		if err != nil {
			t.Fatal(err)
		}
		charts := 0
		for _, object := range decode(t, string(text)) {
			chart := object.text("spec", "source", "chart") + object.text("spec", "chartRef", "name")
			if chart == "" {
				continue
			}
			charts++
			values, err := yaml.Marshal(object.at(path...))
			if err != nil {
				t.Fatal(err)
			}
			file := filepath.Join(t.TempDir(), "values.yaml")
			if err := os.WriteFile(file, values, 0o600); err != nil {
				t.Fatal(err)
			}
			for _, helm := range helms {
				rendered := render(t, helm, "charts/"+chart, "--values", file)
				if len(decode(t, rendered)) == 0 {
					t.Errorf("%s: %s renders nothing", example, chart)
				}
				checkExample(t, example, chart, rendered)
			}
		}
		if charts != 2 {
			t.Errorf("%s has %d charts", example, charts)
		}
	}
}

func checkExample(t *testing.T, example, chart, rendered string) {
	t.Helper()
	phases, warnings := argoSync(t, rendered)
	if warnings != nil {
		t.Errorf("%s: %s: %v", example, chart, warnings)
	}
	withdraws := len(phases["PreDelete"]) == 1
	if expected := example == "argocd/controller.yaml" && chart == "node-resource-advertiser"; withdraws != expected {
		t.Errorf("%s: %s: the Job is there: %t", example, chart, withdraws)
	}
}
