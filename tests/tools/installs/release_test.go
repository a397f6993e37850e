package installs

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
)

const released = "sha256:0123456789abcdef0123456789abcdef0123456789abcdef0123456789abcdef"

// The chart with the digest that a release writes into it.
func releasedChart(t *testing.T) string {
	t.Helper()
	folder := filepath.Join(t.TempDir(), filepath.Base(controller))
	if err := os.CopyFS(folder, os.DirFS(inProject(t, controller))); err != nil {
		t.Fatal(err)
	}
	about := filepath.Join(folder, "Chart.yaml")
	text, err := os.ReadFile(about)
	if err != nil {
		t.Fatal(err)
	}
	const empty = `noderesource.dev/image-digest: ""`
	if !strings.Contains(string(text), empty) {
		t.Fatalf("%s has no %s", about, empty)
	}
	text = []byte(strings.Replace(string(text), empty, "noderesource.dev/image-digest: "+released, 1))
	if err := os.WriteFile(about, text, 0o600); err != nil {
		t.Fatal(err)
	}
	return folder
}

// The digest would win over a tag, and another registry need not have the image.
func TestReleasedChartNamesItsImageOrRejectsAnother(t *testing.T) {
	chart := releasedChart(t)
	const own = "ghcr.io/noderesource/node-resource-advertiser:0.1.0@" + released
	other := "sha256:" + strings.Repeat("1", 64)
	for _, helm := range helms {
		for values, expected := range map[string]string{
			"replicaCount=2":                                              own,
			"image.digest=" + released:                                    own,
			"image.digest=none":                                           "ghcr.io/noderesource/node-resource-advertiser:0.1.0\"",
			"image.tag=patched":                                           "image.tag: patched might not have the image that the chart names by its digest",
			"image.registry=r.example":                                    "image.registry: r.example might not have the image",
			"image.repository=mirror/a":                                   "image.repository: mirror/a might not have the image",
			"global.imageRegistry=r.com":                                  "global.imageRegistry: r.com might not have the image",
			"image.registry=r.example,image.digest=" + released:           "r.example/noderesource/node-resource-advertiser:0.1.0@" + released,
			"image.registry=r.example,image.tag=v1,image.digest=" + other: "r.example/noderesource/node-resource-advertiser:v1@" + other,
			"image.tag=v1,image.digest=none":                              "ghcr.io/noderesource/node-resource-advertiser:v1\"",
		} {
			rendered, err := templateOf(t, helm, chart, "--set", values)
			if err != nil {
				rendered = err.Error()
			}
			if !strings.Contains(rendered, expected) {
				t.Errorf("%s: %s lacks %s", helm, values, expected)
			}
		}
	}
}
