// Package alerts tests the chart's alerts, recording rules and dashboard on Prometheus's own engine: every expression
// parses and finds its series, every alert fires for its cause, and none fires on a healthy system.
package alerts

import (
	"encoding/json"
	"maps"
	"os"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/prometheus/prometheus/model/labels"
	"github.com/prometheus/prometheus/promql"
	"github.com/prometheus/prometheus/promql/parser"
	"github.com/prometheus/prometheus/promql/promqltest"
	"github.com/prometheus/prometheus/util/teststorage"
	"go.yaml.in/yaml/v3"
)

const (
	chart    = "../../../charts/node-resource-advertiser/"
	selector = `namespace="advertising", job="nra"`
	// Time of the evaluation: two hours after the first sample, with one sample a minute.
	now = 2 * time.Hour
)

type alert struct {
	Alert       string
	Expr        string
	For         string
	Labels      map[string]string
	Annotations map[string]string
}

func alerts(t *testing.T) []alert {
	t.Helper()
	var all []alert
	text := strings.ReplaceAll(read(t, chart+"files/alerts.yaml"), "$selector", selector)
	if err := yaml.Unmarshal([]byte(text), &all); err != nil {
		t.Fatal(err)
	}
	return all
}

func read(t *testing.T, path string) string {
	t.Helper()
	text, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}

// Healthy series of two replicas, one of them the leader, in the notation of Prometheus's own tests
// (0+1x120 is 0, 1, 2 … 120).
var healthy = map[string]string{
	`up{pod="a"}`: "1x120",
	`up{pod="b"}`: "1x120",
	`node_resource_advertiser_leader{pod="a"}`:                                                 "1x120",
	`node_resource_advertiser_leader{pod="b"}`:                                                 "0x120",
	`node_resource_advertiser_patches_total{pod="a",result="patched"}`:                         "0+60x120",
	`node_resource_advertiser_patches_total{pod="a",result="stale"}`:                           "0+1x120",
	`node_resource_advertiser_patches_total{pod="a",result="not_found"}`:                       "0x120",
	`node_resource_advertiser_patches_total{pod="a",result="forbidden"}`:                       "0x120",
	`node_resource_advertiser_patches_total{pod="a",result="failed"}`:                          "0x120",
	`node_resource_advertiser_repairs_total{pod="a"}`:                                          "0+1x120",
	`node_resource_advertiser_nodes{pod="a",state="advertised"}`:                               "1000x120",
	`node_resource_advertiser_nodes{pod="b",state="advertised"}`:                               "0x120",
	`node_resource_advertiser_nodes{pod="a",state="pending"}`:                                  "0x120",
	`node_resource_advertiser_nodes{pod="a",state="held"}`:                                     "0x120",
	`node_resource_advertiser_nodes{pod="a",state="pods_unavailable"}`:                         "0x120",
	`node_resource_advertiser_nodes{pod="a",state="overridden"}`:                               "0x120",
	`node_resource_advertiser_nodes{pod="a",state="conflicted"}`:                               "0x120",
	`node_resource_advertiser_nodes{pod="a",state="contested"}`:                                "0x120",
	`node_resource_advertiser_nodes{pod="a",state="failed"}`:                                   "0x120",
	`node_resource_advertiser_nodes{pod="a",state="invalid_ledger"}`:                           "0x120",
	`node_resource_advertiser_nodes{pod="a",state="ledger_full"}`:                              "0x120",
	`node_resource_advertiser_rules{pod="a",state="ready"}`:                                    "3x120",
	`node_resource_advertiser_rules{pod="a",state="not_ready"}`:                                "0x120",
	`node_resource_advertiser_rules{pod="a",state="stalled"}`:                                  "0x120",
	`node_resource_advertiser_rules_without_nodes{pod="a"}`:                                    "0x120",
	`node_resource_advertiser_rules_memory_bytes{pod="a"}`:                                     "6000x120",
	`node_resource_advertiser_rules_memory_bytes{pod="b"}`:                                     "6000x120",
	`node_resource_advertiser_rules_memory_limit_bytes{pod="a"}`:                               "33554432x120",
	`node_resource_advertiser_rules_memory_limit_bytes{pod="b"}`:                               "33554432x120",
	`node_resource_advertiser_rules_missing{pod="a"}`:                                          "0x120",
	`node_resource_advertiser_advertised{pod="a",resource="example.com/dongle",rule="dongle"}`: "12x120",
	`node_resource_advertiser_requested{pod="a",resource="example.com/dongle",rule="dongle"}`:  "9x120",
	`node_resource_advertiser_rules_missing{pod="b"}`:                                          "0x120",
	`node_resource_advertiser_protection{pod="a",state="present"}`:                             "1x120",
	`node_resource_advertiser_protection{pod="b",state="present"}`:                             "1x120",
	`node_resource_advertiser_protection{pod="a",state="absent"}`:                              "0x120",
	`node_resource_advertiser_protection{pod="b",state="absent"}`:                              "0x120",
	`node_resource_advertiser_kubelet_starts_total{pod="a",values="kept"}`:                     "0+1x120",
	`node_resource_advertiser_kubelet_starts_total{pod="a",values="reset"}`:                    "0x120",
	`node_resource_advertiser_confinement{pod="a",state="confined"}`:                           "1x120",
	`node_resource_advertiser_confinement{pod="b",state="confined"}`:                           "0x120",
	`node_resource_advertiser_confinement{pod="a",state="unconfined"}`:                         "0x120",
	`node_resource_advertiser_confinement{pod="a",state="unknown"}`:                            "0x120",
	`node_resource_advertiser_confinement_tests_total{pod="a",result="confined"}`:              "0+1x120",
	// During the first two minutes after an installation.
	`node_resource_advertiser_confinement_tests_total{pod="a",result="unconfined"}`: "0x110 1 2x8",
	`node_resource_advertiser_confinement_tests_total{pod="a",result="unknown"}`:    "0x120",
	// Two API servers, each with half of the tests, one of them scraped twice.
	`apiserver_validating_admission_policy_check_total{endpoint="a",instance="a",policy="node-resource-advertiser",enforcement_action="deny"}`:              "0+0.5x120",
	`apiserver_validating_admission_policy_check_total{endpoint="b",instance="a",policy="node-resource-advertiser",enforcement_action="deny"}`:              "0+0.5x120",
	`apiserver_validating_admission_policy_check_total{endpoint="a",instance="b",policy="node-resource-advertiser",enforcement_action="deny"}`:              "0+0.5x120",
	`apiserver_validating_admission_policy_check_total{endpoint="a",instance="b",policy="prod-node-resource-advertiser-objects",enforcement_action="deny"}`: "0x120",
	// The same request is also rejected by the policy in a file of the API server.
	`apiserver_validating_admission_policy_check_total{endpoint="a",instance="a",policy="node-resource-advertiser.static.k8s.io",enforcement_action="deny"}`: "0+0.5x120",
	`apiserver_validating_admission_policy_check_total{endpoint="a",instance="b",policy="node-resource-advertiser.static.k8s.io",enforcement_action="deny"}`: "0+0.5x120",
	// Rejections for authors of rules.
	`apiserver_validating_admission_policy_check_total{endpoint="a",instance="a",policy="node-resource-advertiser-rules",enforcement_action="deny"}`: "0+10x120",
	`node_resource_advertiser_event_to_patch_duration_seconds_bucket{pod="a",le="0.01"}`:                                                             "0+60x120",
	`node_resource_advertiser_event_to_patch_duration_seconds_bucket{pod="a",le="1.0"}`:                                                              "0+60x120",
	`node_resource_advertiser_event_to_patch_duration_seconds_bucket{pod="a",le="+Inf"}`:                                                             "0+60x120",
	`node_resource_advertiser_plan_duration_seconds_bucket{pod="a",le="0.001"}`:                                                                      "0+60x120",
	`node_resource_advertiser_plan_duration_seconds_bucket{pod="a",le="+Inf"}`:                                                                       "0+60x120",
	// The API server ends every watch after some minutes, and the controller restarts it.
	`node_resource_advertiser_watch_restarts_total{pod="a",resource="nodes"}`:           "0+0.2x120",
	`node_resource_advertiser_watch_restarts_total{pod="a",resource="rules"}`:           "0+0.2x120",
	`node_resource_advertiser_watch_restarts_total{pod="a",resource="pods"}`:            "0+0.2x120",
	`node_resource_advertiser_watch_broken_timestamp_seconds{pod="a",resource="nodes"}`: "0x120",
	`node_resource_advertiser_watch_broken_timestamp_seconds{pod="b",resource="nodes"}`: "0x120",
	// For ten minutes.
	`node_resource_advertiser_watch_broken_timestamp_seconds{pod="a",resource="pods"}`: "0x109 6600x10",
	// For two minutes.
	`node_resource_advertiser_watch_broken_timestamp_seconds{pod="b",resource="rules"}`: "0x117 7080x2",
	`node_resource_advertiser_build_info{pod="a",version="0.1.0"}`:                      "1x120",
}

// The series that make each alert fire, instead of the healthy ones; an empty text removes a series.
var troubles = map[string]map[string]string{
	"NodeResourceAdvertiserDown": {`up{pod="a"}`: "1x100 0x19", `up{pod="b"}`: ""},
	"NodeResourceAdvertiserNoLeader": {
		`node_resource_advertiser_leader{pod="a"}`: "1x100 0x19",
	},
	"NodeResourceAdvertiserForbidden": {
		`node_resource_advertiser_patches_total{pod="a",result="forbidden"}`: "0x110 1+1x9",
	},
	"NodeResourceAdvertiserNodesFailed": {
		`node_resource_advertiser_nodes{pod="a",state="failed"}`: "2x120",
	},
	"NodeResourceAdvertiserNodesPending": {
		`node_resource_advertiser_nodes{pod="a",state="pending"}`: "2x120",
	},
	"NodeResourceAdvertiserInvalidLedger": {
		`node_resource_advertiser_nodes{pod="a",state="invalid_ledger"}`: "1x120",
	},
	"NodeResourceAdvertiserLedgerFull": {
		`node_resource_advertiser_nodes{pod="a",state="ledger_full"}`: "1x120",
	},
	"NodeResourceAdvertiserNodesContested": {
		`node_resource_advertiser_nodes{pod="a",state="contested"}`: "1x120",
	},
	"NodeResourceAdvertiserNodesConflicted": {
		`node_resource_advertiser_nodes{pod="a",state="conflicted"}`: "1x120",
	},
	"NodeResourceAdvertiserPodsUnavailable": {
		`node_resource_advertiser_watch_broken_timestamp_seconds{pod="a",resource="pods"}`: "0x100 6060x19",
	},
	"NodeResourceAdvertiserNodesHeld": {
		`node_resource_advertiser_nodes{pod="a",state="held"}`: "1x120",
	},
	"NodeResourceAdvertiserUsedUp": {
		`node_resource_advertiser_requested{pod="a",resource="example.com/dongle",rule="dongle"}`: "9x60 12x59",
	},
	// The state is brief, so the alert has no `for`.
	"NodeResourceAdvertiserRulesMissing": {
		`node_resource_advertiser_rules_missing{pod="a"}`: "0x119 3",
	},
	"NodeResourceAdvertiserRulesStalled": {
		`node_resource_advertiser_rules{pod="a",state="stalled"}`: "1x120",
	},
	"NodeResourceAdvertiserRulesMemory": {
		`node_resource_advertiser_rules_memory_bytes{pod="a"}`: "6000x90 30000000x29",
	},
	"NodeResourceAdvertiserRulesWithoutNodes": {
		`node_resource_advertiser_rules_without_nodes{pod="a"}`: "1x120",
	},
	"NodeResourceAdvertiserUnprotected": {
		`node_resource_advertiser_protection{pod="a",state="absent"}`:  "1x120",
		`node_resource_advertiser_protection{pod="a",state="present"}`: "0x120",
	},
	"NodeResourceAdvertiserProtectionIneffective": {
		`node_resource_advertiser_kubelet_starts_total{pod="a",values="reset"}`: "0x110 1x9",
	},
	// One of three API servers lacks the policy: the gauge shows it for a minute at a time.
	"NodeResourceAdvertiserUnconfined": {
		`node_resource_advertiser_confinement{pod="a",state="confined"}`:                                                                                         "1x120",
		`node_resource_advertiser_confinement_tests_total{pod="a",result="confined"}`:                                                                            "0+0.6x120",
		`node_resource_advertiser_confinement_tests_total{pod="a",result="unconfined"}`:                                                                          "0+0.4x120",
		`apiserver_validating_admission_policy_check_total{endpoint="a",instance="b",policy="node-resource-advertiser",enforcement_action="deny"}`:               "0+0.1x120",
		`apiserver_validating_admission_policy_check_total{endpoint="a",instance="b",policy="node-resource-advertiser.static.k8s.io",enforcement_action="deny"}`: "0+0.1x120",
	},
	"NodeResourceAdvertiserConfinementUnknown": {
		`node_resource_advertiser_confinement{pod="a",state="confined"}`: "0x120",
		`node_resource_advertiser_confinement{pod="a",state="unknown"}`:  "1x120",
	},
	// Dry runs that were accepted must not be subtracted from the rejections.
	"NodeResourceAdvertiserDenied": {
		`apiserver_validating_admission_policy_check_total{endpoint="a",instance="b",policy="node-resource-advertiser.static.k8s.io",enforcement_action="deny"}`: "0+0.5x110 56+2x9",
		`node_resource_advertiser_confinement_tests_total{pod="a",result="unknown"}`:                                                                             "0+1x120",
	},
	"NodeResourceAdvertiserSlow": {
		`node_resource_advertiser_event_to_patch_duration_seconds_bucket{pod="a",le="0.01"}`: "0+55x120",
	},
	"NodeResourceAdvertiserWatchBroken": {
		`node_resource_advertiser_watch_broken_timestamp_seconds{pod="b",resource="nodes"}`: "0x113 6840x6",
	},
	"NodeResourceAdvertiserWatchRestarts": {
		`node_resource_advertiser_watch_restarts_total{pod="a",resource="nodes"}`: "0+6x120",
	},
}

// A Prometheus with the healthy series, except those of the fault.
func scraped(t *testing.T, trouble map[string]string) func(expr string) promql.Vector {
	t.Helper()
	all := maps.Clone(healthy)
	for series := range trouble {
		if _, known := all[series]; !known {
			t.Fatalf("%s is not among the healthy series", series)
		}
	}
	maps.Copy(all, trouble)
	load := "load 1m\n"
	for _, series := range slices.Sorted(maps.Keys(all)) {
		if all[series] != "" {
			load += "  " + strings.Replace(series, "{", "{"+selector+",", 1) + " " + all[series] + "\n"
		}
	}
	return recorded(t, load+indented(cluster(t).series(t)))
}

// A Prometheus with these series, in the notation of its own tests, and with what the recording rules make of them.
func recorded(t *testing.T, load string) func(expr string) promql.Vector {
	t.Helper()
	server := serve(t, load)
	server.record(t, now)
	return func(expr string) promql.Vector {
		t.Helper()
		return server.instant(t, expr, now)
	}
}

type prometheus struct {
	storage *teststorage.TestStorage
	engine  *promql.Engine
}

func serve(t *testing.T, load string) prometheus {
	t.Helper()
	storage := promqltest.LoadedStorage(t, load)
	t.Cleanup(func() { storage.Close() })
	return prometheus{storage, promqltest.NewTestEngine(t, false, 0, promqltest.DefaultMaxSamplesPerQuery)}
}

func (server prometheus) instant(t *testing.T, expr string, at time.Duration) promql.Vector {
	t.Helper()
	query, err := server.engine.NewInstantQuery(t.Context(), server.storage, nil, expr, time.Unix(0, 0).Add(at))
	if err != nil {
		t.Fatalf("%s: %v", expr, err)
	}
	defer query.Close()
	result := query.Exec(t.Context())
	vector, err := result.Vector()
	if err != nil {
		t.Fatalf("%s: %v", expr, err)
	}
	if len(result.Warnings) > 0 {
		t.Errorf("%s: %v", expr, result.Warnings.AsErrors())
	}
	return slices.Clone(vector)
}

// Adds what the recording rules make of the series at a time.
func (server prometheus) record(t *testing.T, at time.Duration) {
	t.Helper()
	for _, rule := range recordings(t) {
		appender := server.storage.Appender(t.Context())
		for _, sample := range server.instant(t, rule.Expr, at) {
			series := labels.NewBuilder(sample.Metric).Set(labels.MetricName, rule.Record).Labels()
			if _, err := appender.Append(0, series, at.Milliseconds(), sample.F); err != nil {
				t.Fatalf("%s: %v", rule.Record, err)
			}
		}
		if err := appender.Commit(); err != nil {
			t.Fatal(err)
		}
	}
}

// The names and labels are the program's own, as a test of the program records them.
func TestHealthySeriesAreThoseOfTheProgram(t *testing.T) {
	recorded := map[string]bool{}
	for line := range strings.Lines(read(t, "../../testdata/metrics.txt")) {
		if series, _, is := strings.Cut(line, " "); is && series != "#" {
			recorded[series] = true
		}
	}
	unlabelled := regexp.MustCompile(`\{pod="[ab]"(\}|,)`)
	for series := range healthy {
		if !strings.HasPrefix(series, "node_resource_advertiser_") {
			continue
		}
		own := strings.TrimSuffix(unlabelled.ReplaceAllString(series, "{"), "{")
		// The version differs from release to release.
		own = strings.Replace(own, `version="0.1.0"`, `version="0.0.0"`, 1)
		if !recorded[own] {
			t.Errorf("the program has no series %s", own)
		}
	}
}

func TestHealthySeriesFireNoAlert(t *testing.T) {
	query := scraped(t, nil)
	for _, alert := range alerts(t) {
		if vector := query(alert.Expr); len(vector) > 0 {
			t.Errorf("%s fires: %v", alert.Alert, vector)
		}
	}
}

func TestAlertFiresForItsCause(t *testing.T) {
	for _, alert := range alerts(t) {
		t.Run(alert.Alert, func(t *testing.T) {
			trouble, known := troubles[alert.Alert]
			if !known {
				t.Fatal("no trouble makes it fire: add some")
			}
			query := scraped(t, trouble)
			if len(query(alert.Expr)) == 0 {
				t.Errorf("does not fire: %s", alert.Expr)
			}
			for _, other := range alerts(t) {
				if other.Alert != alert.Alert && len(query(other.Expr)) > 0 {
					t.Errorf("%s fires as well", other.Alert)
				}
			}
		})
	}
}

func TestAlertHasTextAndRunbookSection(t *testing.T) {
	runbook := read(t, "../../../docs/runbook.md")
	all := alerts(t)
	for _, alert := range all {
		if alert.Annotations["summary"] == "" || alert.Annotations["description"] == "" {
			t.Errorf("%s: has no summary or no description", alert.Alert)
		}
		if severity := alert.Labels["severity"]; severity != "critical" && severity != "warning" {
			t.Errorf("%s: severity %q", alert.Alert, severity)
		}
		if !strings.Contains(runbook, "\n## "+alert.Alert+"\n") {
			t.Errorf("docs/runbook.md has no section %s", alert.Alert)
		}
	}
	if sections := strings.Count(runbook, "\n## "); sections != len(all) {
		t.Errorf("docs/runbook.md has %d sections for %d alerts", sections, len(all))
	}
}

// A misspelled metric or label selects nothing, and Prometheus reports no error.
func TestSelectorsMatchSeries(t *testing.T) {
	query := scraped(t, nil)
	expressions := map[string]string{}
	for _, alert := range alerts(t) {
		expressions[alert.Alert] = alert.Expr
	}
	for _, rule := range recordings(t) {
		expressions[rule.Record] = rule.Expr
	}
	maps.Copy(expressions, dashboard(t))
	parse := parser.NewParser(parser.Options{})
	for name, text := range expressions {
		expr, err := parse.ParseExpr(text)
		if err != nil {
			t.Errorf("%s: %v", name, err)
			continue
		}
		parser.Inspect(expr, func(node parser.Node, _ []parser.Node) error {
			if vector, is := node.(*parser.VectorSelector); is && len(query(vector.String())) == 0 {
				t.Errorf("%s: %s selects nothing", name, vector)
			}
			return nil
		})
		if strings.HasPrefix(name, "dashboard: ") && len(query(text)) == 0 {
			t.Errorf("%s: shows nothing: %s", name, text)
		}
	}
}

type panel struct {
	Type        string
	Title       string
	Description string
	GridPos     struct{ X, Y, W, H int }
	Options     struct{ TextMode string }
	FieldConfig struct {
		Defaults struct {
			Unit   string
			Custom struct{ Stacking struct{ Mode string } }
		}
		Overrides []struct{ Matcher struct{ ID, Options string } }
	}
	Targets []struct{ Expr, LegendFormat string }
}

// The dashboard's panels, with the variables filled in.
func panels(t *testing.T, rateInterval string) []panel {
	t.Helper()
	var board struct{ Panels []panel }
	if err := json.Unmarshal([]byte(read(t, chart+"files/dashboard.json")), &board); err != nil {
		t.Fatal(err)
	}
	variables := strings.NewReplacer("$namespace", "advertising", "$job", "nra", "$__rate_interval", rateInterval)
	for _, panel := range board.Panels {
		for i, target := range panel.Targets {
			panel.Targets[i].Expr = variables.Replace(target.Expr)
		}
	}
	return board.Panels
}

// The expressions of the panels.
func dashboard(t *testing.T) map[string]string {
	t.Helper()
	expressions := map[string]string{}
	for _, panel := range panels(t, "5m") {
		if panel.Description == "" || len(panel.Targets) == 0 {
			t.Errorf("dashboard: the panel %q has no description or no target", panel.Title)
		}
		for _, target := range panel.Targets {
			expressions["dashboard: "+panel.Title+": "+target.Expr] = target.Expr
		}
	}
	return expressions
}
