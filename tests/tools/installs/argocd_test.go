package installs

import (
	"slices"
	"testing"
)

// How Argo CD maps Helm's hooks: docs/user-guide/helm.md, controller/hook.go and, in its gitops-engine,
// pkg/sync/hook/helm/type.go, at v3.4.13. It ignores the others. Every installation and upgrade is a sync.
var argoPhases = map[string]string{
	"pre-install":  "PreSync",
	"pre-upgrade":  "PreSync",
	"post-install": "PostSync",
	"post-upgrade": "PostSync",
	"pre-delete":   "PreDelete",
	"post-delete":  "PostDelete",
}

// The Kubernetes groups and kinds that manifests/base/config/argocd-cm.yaml at v3.4.13 excludes.
var argoExclusions = []string{
	"|Endpoints", "discovery.k8s.io|EndpointSlice", "coordination.k8s.io|Lease",
	"authentication.k8s.io|TokenReview", "authorization.k8s.io|SubjectAccessReview",
	"certificates.k8s.io|CertificateSigningRequest",
}

// The objects by phase; "Sync" has those that are not hooks. Of two with the same key the last remains, with a warning:
// DeduplicateTargetObjects in controller/state.go.
func argoSync(t *testing.T, rendered string) (phases map[string][]object, warnings []string) {
	t.Helper()
	byKey := map[string]object{}
	var keys []string
	for _, object := range decode(t, rendered) {
		if slices.Contains(argoExclusions, object.groupKind()) {
			warnings = append(warnings, "ExcludedResourceWarning: "+object.identity())
			continue
		}
		if byKey[object.identity()] == nil {
			keys = append(keys, object.identity())
		} else {
			warnings = append(warnings, "RepeatedResourceWarning: "+object.identity())
		}
		byKey[object.identity()] = object
	}
	phases = map[string][]object{}
	for _, key := range keys {
		object := byKey[key]
		if object.hooks() == nil {
			phases["Sync"] = append(phases["Sync"], object)
		}
		for _, hook := range object.hooks() {
			if phase, ok := argoPhases[hook]; ok {
				phases[phase] = append(phases[phase], object)
			}
		}
	}
	return phases, warnings
}

func TestArgoCDSyncsEveryVariantWithoutHooksAndWarnings(t *testing.T) {
	eachVariant(t, func(t *testing.T, rendered string) {
		phases, warnings := argoSync(t, rendered)
		if warnings != nil {
			t.Error(warnings)
		}
		for phase, objects := range phases {
			if phase != "Sync" {
				t.Errorf("%s of %s", phase, objects[0].identity())
			}
		}
	})
}

// From 3.3 on Argo CD runs the Job before it deletes the Application, if enabled.
func TestArgoCDPrunesBeforeDeletionIfEnabled(t *testing.T) {
	phases, warnings := argoSync(t, render(t, helms[0], controller, "--set", "prune.enabled=true"))
	if warnings != nil {
		t.Error(warnings)
	}
	if jobs := phases["PreDelete"]; len(jobs) != 1 || jobs[0].text("kind") != "Job" || len(phases) != 2 {
		t.Errorf("PreDelete: %v", jobs)
	}
}
