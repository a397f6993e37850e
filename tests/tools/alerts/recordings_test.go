package alerts

import (
	"encoding/json"
	"fmt"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/prometheus/prometheus/promql"
	"go.yaml.in/yaml/v3"
)

// Nodes, pods, and what `top` shows of them: a test of the program compares the same file.
const inventory = "../../testdata/inventory.json"

const ksm = `job="kube-state-metrics"`

type recording struct{ Record, Expr string }

func recordings(t *testing.T) []recording {
	t.Helper()
	var all []recording
	text := strings.ReplaceAll(read(t, chart+"files/recordings.yaml"), "$ksm", ksm+`, exported_node="", exported_pod=""`)
	if err := yaml.Unmarshal([]byte(text), &all); err != nil {
		t.Fatal(err)
	}
	return all
}

type objects struct {
	Nodes []struct {
		Metadata struct{ Name string }
		Spec     struct{ Unschedulable bool }
		Status   struct {
			Allocatable map[string]string
			Conditions  []struct{ Type, Status string }
		}
	}
	Pods []struct {
		Metadata struct{ Name, Namespace, UID string }
		Spec     struct {
			NodeName                   string
			Containers, InitContainers []container
		}
		Status struct{ Phase string }
	}
	Top map[string]map[string]float64
}

type container struct {
	Name, RestartPolicy string
	Resources           struct{ Requests map[string]string }
}

func cluster(t *testing.T) objects {
	t.Helper()
	var all objects
	if err := json.Unmarshal([]byte(read(t, inventory)), &all); err != nil {
		t.Fatal(err)
	}
	return all
}

// The name of a resource as kube-state-metrics writes it: sanitizeLabelName in its internal/store/utils.go.
func sanitized(resource string) string {
	return regexp.MustCompile(`[^a-zA-Z0-9_]`).ReplaceAllString(resource, "_")
}

// The unit of a resource, or none if kube-state-metrics has no series of it: isNativeResource, likewise.
func unit(resource string) string {
	switch {
	case resource == "cpu":
		return "core"
	case resource == "memory":
		return "byte"
	case resource == "pods":
		return "integer"
	case strings.Contains(resource, "/") && !strings.Contains(resource, "kubernetes.io/"):
		return "integer"
	}
	return ""
}

// The series of kube-state-metrics, in the form of its internal/store/{node,pod}.go.
func (all objects) series(t *testing.T) []string {
	t.Helper()
	var series []string
	add := func(name, value string, labels ...string) {
		var text []string
		for i := 0; i < len(labels); i += 2 {
			text = append(text, fmt.Sprintf("%s=%q", labels[i], labels[i+1]))
		}
		series = append(series, fmt.Sprintf("%s{%s,%s} %sx120", name, ksm, strings.Join(text, ","), value))
	}
	flag := func(is bool) string {
		if is {
			return "1"
		}
		return "0"
	}
	for _, node := range all.Nodes {
		name := node.Metadata.Name
		add("kube_node_spec_unschedulable", flag(node.Spec.Unschedulable), "node", name)
		for _, condition := range node.Status.Conditions {
			for _, status := range []string{"true", "false", "unknown"} {
				is := strings.EqualFold(condition.Status, status)
				add("kube_node_status_condition", flag(is), "node", name, "condition", condition.Type, "status", status)
			}
		}
		for resource, quantity := range node.Status.Allocatable {
			if unit := unit(resource); unit != "" {
				add("kube_node_status_allocatable", quantity, "node", name, "resource", sanitized(resource), "unit", unit)
			}
		}
	}
	for _, pod := range all.Pods {
		id := []string{"namespace", pod.Metadata.Namespace, "pod", pod.Metadata.Name, "uid", pod.Metadata.UID}
		for _, phase := range []string{"Pending", "Succeeded", "Failed", "Running", "Unknown"} {
			add("kube_pod_status_phase", flag(pod.Status.Phase == phase), append(slices.Clone(id), "phase", phase)...)
		}
		requests := func(metric string, container container) {
			for resource, quantity := range container.Resources.Requests {
				if unit := unit(resource); unit != "" {
					add(metric, quantity, append(slices.Clone(id), "container", container.Name, "node", pod.Spec.NodeName,
						"resource", sanitized(resource), "unit", unit)...)
				}
			}
		}
		for _, container := range pod.Spec.Containers {
			requests("kube_pod_container_resource_requests", container)
		}
		for _, container := range pod.Spec.InitContainers {
			requests("kube_pod_init_container_resource_requests", container)
			add("kube_pod_init_container_info", "1", append(slices.Clone(id), "container", container.Name, "container_id", "",
				"image", "", "image_id", "", "image_spec", "app", "restart_policy", container.RestartPolicy)...)
		}
	}
	return series
}

func indented(series []string) string {
	load := ""
	for _, line := range series {
		load += "  " + line + "\n"
	}
	return load
}

// What the recording rules have for each column of `top`.
var columns = map[string]string{
	"total":     "resource:noderesource_allocatable:sum",
	"requested": "resource:noderesource_requested:sum",
	"free":      "resource:noderesource_free:sum",
	"largest":   "resource:noderesource_free:max",
}

func values(query func(string) promql.Vector, record string) map[string]float64 {
	found := map[string]float64{}
	for _, sample := range query(record) {
		found[sample.Metric.Get("resource")] = sample.F
	}
	return found
}

func TestRecordingsAreWhatTopShows(t *testing.T) {
	all := cluster(t)
	series := all.series(t)
	query := recorded(t, "load 1m\n"+indented(series))
	for column, record := range columns {
		found := values(query, record)
		if len(found) != len(all.Top) {
			t.Errorf("%s: %v", record, found)
		}
		for resource, expected := range all.Top {
			if value, is := found[sanitized(resource)]; !is || value != expected[column] {
				t.Errorf("%s of %s is %v, and top has %v", record, resource, value, expected[column])
			}
		}
	}
}

func TestRecordingsCountEachPodOnceWithTwoKubeStateMetrics(t *testing.T) {
	all := cluster(t)
	var series []string
	for _, line := range all.series(t) {
		for _, instance := range []string{"a", "b"} {
			series = append(series, strings.Replace(line, "{", `{instance="`+instance+`",`, 1))
		}
	}
	query := recorded(t, "load 1m\n"+indented(series))
	for column, record := range columns {
		found := values(query, record)
		for resource, expected := range all.Top {
			if value := found[sanitized(resource)]; value != expected[column] {
				t.Errorf("%s of %s is %v instead of %v", record, resource, value, expected[column])
			}
		}
	}
}

// Without a metric that a rule needs, what it says is unknown, and not 0 or all.
func TestRecordingsLackWhatIsUnknown(t *testing.T) {
	for missing, unknown := range map[string][]string{
		"kube_pod_container_resource_requests": {"requested", "free", "largest"},
		"kube_pod_status_phase":                {"requested", "free", "largest"},
		"kube_node_status_condition":           {"largest"},
		"kube_node_spec_unschedulable":         {"largest"},
		"kube_node_status_allocatable":         {"total", "free", "largest"},
	} {
		series := slices.DeleteFunc(cluster(t).series(t), func(line string) bool { return strings.HasPrefix(line, missing+"{") })
		query := recorded(t, "load 1m\n"+indented(series))
		for column, record := range columns {
			found := values(query, record)
			if slices.Contains(unknown, column) && len(found) > 0 {
				t.Errorf("without %s: %s is %v", missing, record, found)
			}
			if !slices.Contains(unknown, column) && len(found) == 0 {
				t.Errorf("without %s: there is no %s", missing, record)
			}
		}
	}
}

// Without honorLabels, the labels of the target replace those of kube-state-metrics.
func TestRecordingsIgnoreSeriesWithTheLabelsOfTheTarget(t *testing.T) {
	rename := strings.NewReplacer(",pod=", `,pod="ksm-0",exported_pod=`, "container=", `container="ksm",exported_container=`,
		"{"+ksm+",namespace=", "{"+ksm+`,namespace="monitoring",exported_namespace=`)
	query := recorded(t, "load 1m\n"+rename.Replace(indented(cluster(t).series(t))))
	for column, record := range columns {
		if found := values(query, record); column != "total" && len(found) > 0 {
			t.Errorf("%s is %v", record, found)
		}
	}
}

func TestRecordingsAreDocumented(t *testing.T) {
	page := read(t, "../../../docs/monitoring.md")
	for _, rule := range recordings(t) {
		if !strings.Contains(page, "`"+rule.Record+"`") {
			t.Errorf("docs/monitoring.md lacks %s", rule.Record)
		}
	}
}
