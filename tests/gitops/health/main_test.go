package main

import (
	"encoding/json"
	"strings"
	"testing"
)

const argocdCM = "../../../examples/gitops/argocd/argocd-cm.yaml"

// Statuses that the controller reports, and how the tools evaluate them.
var cases = []struct {
	what            string
	status          string
	kstatus, health string
	message         string
}{
	{
		what:    "no status, as where a CRD has no default for it; only Argo CD's script sees that",
		status:  `{}`,
		kstatus: "Current", health: "Progressing", message: "waiting for the controller",
	},
	{
		what:    "not looked at yet: the CRD's default",
		status:  `{"status": {"observedGeneration": -1}}`,
		kstatus: "InProgress", health: "Progressing", message: "waiting for the controller",
	},
	{
		what:    "Ready, but of the generation before",
		status:  conditions(1, "Ready=True/Advertised"),
		kstatus: "InProgress", health: "Progressing", message: "waiting for the controller",
	},
	{
		what:    "in force",
		status:  conditions(2, "Ready=True/Advertised", "Reconciling=False/Advertised", "Stalled=False/Advertised"),
		kstatus: "Current", health: "Healthy", message: "of Ready",
	},
	{
		what:    "in force on no node, since none is selected",
		status:  conditions(2, "Ready=True/NoNodesSelected", "Reconciling=False/NoNodesSelected"),
		kstatus: "Current", health: "Healthy", message: "of Ready",
	},
	{
		what:    "patches under way",
		status:  conditions(2, "Ready=False/Progressing", "Reconciling=True/Progressing"),
		kstatus: "InProgress", health: "Progressing", message: "of Ready",
	},
	{
		what:    "patches that fail are retried",
		status:  conditions(2, "Ready=False/PatchFailed", "Reconciling=True/PatchFailed"),
		kstatus: "InProgress", health: "Progressing", message: "of Ready",
	},
	{
		what:    "held by pods, until they end",
		status:  conditions(2, "Ready=False/Held", "Reconciling=True/Held"),
		kstatus: "InProgress", health: "Progressing", message: "of Ready",
	},
	{
		what:    "another writer has the value",
		status:  conditions(2, "Ready=False/Conflict", "Reconciling=False/Conflict", "Stalled=False/Conflict"),
		kstatus: "InProgress", health: "Degraded", message: "Conflict: of Ready",
	},
	{
		what:    "another writer keeps changing it back",
		status:  conditions(2, "Ready=False/Contested", "Reconciling=False/Contested", "Contested=True/Contested"),
		kstatus: "InProgress", health: "Degraded", message: "Contested: of Ready",
	},
	{
		what:    "invalid, from before the CRD's validation",
		status:  conditions(2, "Ready=False/InvalidSpec", "Reconciling=False/InvalidSpec", "Stalled=True/InvalidSpec"),
		kstatus: "Failed", health: "Degraded", message: "of Stalled",
	},
	{
		what:    "a status without conditions",
		status:  conditions(2),
		kstatus: "Current", health: "Progressing", message: "waiting for the controller",
	},
}

func TestToolsReportRuleHealth(t *testing.T) {
	for _, test := range cases {
		t.Run(test.what, func(t *testing.T) {
			verdict := judgeText(t, test.status)
			if verdict.Kstatus.Status != test.kstatus {
				t.Errorf("kstatus returns %+v, not %s", verdict.Kstatus, test.kstatus)
			}
			if verdict.ArgoCD != (Result{Status: test.health, Message: test.message}) {
				t.Errorf("Argo CD returns %+v, not %s: %s", verdict.ArgoCD, test.health, test.message)
			}
		})
	}
}

// conditions builds a status from texts such as Ready=True/Advertised.
func conditions(observed int, all ...string) string {
	list := []map[string]any{}
	for _, text := range all {
		kind, rest, _ := strings.Cut(text, "=")
		status, reason, _ := strings.Cut(rest, "/")
		list = append(list, map[string]any{
			"type": kind, "status": status, "reason": reason, "message": "of " + kind, "observedGeneration": observed,
			"lastTransitionTime": "2026-01-01T00:00:00Z",
		})
	}
	status := map[string]any{"status": map[string]any{"observedGeneration": observed, "conditions": list}}
	text, _ := json.Marshal(status)
	return string(text)
}

// judgeText adds the rest of a rule of generation 2 to a status.
func judgeText(t *testing.T, status string) Verdict {
	t.Helper()
	var object map[string]any
	if err := json.Unmarshal([]byte(status), &object); err != nil {
		t.Fatal(err)
	}
	object["apiVersion"] = "noderesource.dev/v1alpha1"
	object["kind"] = "NodeExtendedResource"
	object["metadata"] = map[string]any{"name": "dongle", "generation": 2}
	text, err := json.Marshal(object)
	if err != nil {
		t.Fatal(err)
	}
	verdicts, err := run([]string{argocdCM}, strings.NewReader(string(text)))
	if err != nil {
		t.Fatal(err)
	}
	return verdicts[0]
}
