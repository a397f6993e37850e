// Writes the values schema of the chart of rules from the CRD in crds/, stricter only where the CRD uses CEL. With
// --check it only reports whether the file is up to date.
package main

import (
	"bytes"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"

	"noderesource.dev/tests/tools/generated"
)

const (
	kindSchema  = "crds/json-schema/nodeextendedresource_v1alpha1.json"
	chartSchema = "charts/node-resource-advertiser-rules/values.schema.json"
)

// The CRD's CEL rules, as far as a schema can express them.
const stricter = `{
	"properties": {
		"resourceName": {"pattern": "^[^/]+/[^/]+$"},
		"quantity": {"minimum": 1},
		"quantityFrom": {
			"properties": {
				"max": {"minimum": 1}, "min": {"minimum": 1}, "default": {"minimum": 1},
				"nodeLabel": {"properties": {"values": {"minProperties": 1, "additionalProperties": {"minimum": 1}}}}
			},
			"allOf": [{"oneOf": [
				{"required": ["max"]},
				{"required": ["nodeLabel"], "properties": {"nodeLabel": {"required": ["values"]}}}
			]}],
			"oneOf": [{"required": ["nodeLabel"]}, {"required": ["nodeAnnotation"]}, {"required": ["resource"]}]
		},
		"nodeSelector": {
			"minProperties": 1,
			"properties": {"matchLabels": {"minProperties": 1}, "matchExpressions": {"minItems": 1}}
		}
	},
	"allOf": [{"oneOf": [{"required": ["quantity"]}, {"required": ["quantityFrom"]}]}],
	"oneOf": [{"required": ["nodeSelector"]}, {"required": ["nodeNames"]}, {"required": ["allNodes"]}]
}`

func main() {
	generated.Main("ruleschema", func(project string) (generated.File, error) {
		text, err := generate(filepath.Join(project, kindSchema))
		path := filepath.Join(project, chartSchema)
		return generated.File{Path: path, Text: text, Source: kindSchema, Target: "crds"}, err
	})
}

func generate(kind string) ([]byte, error) {
	text, err := os.ReadFile(kind)
	if err != nil {
		return nil, err
	}
	var schema struct{ Properties struct{ Spec map[string]any } }
	if err := json.Unmarshal(text, &schema); err != nil {
		return nil, fmt.Errorf("%s: %w", kind, err)
	}
	spec := schema.Properties.Spec
	if spec == nil {
		return nil, fmt.Errorf("%s: has no spec", kind)
	}
	var checks map[string]any
	if err := json.Unmarshal([]byte(stricter), &checks); err != nil {
		return nil, err
	}
	merge(spec, checks)
	strings := map[string]any{"type": "string"}
	labels := map[string]any{"type": "string", "maxLength": 63}
	whole := map[string]any{
		"$schema":              "http://json-schema.org/draft-07/schema#",
		"title":                "Values of the chart node-resource-advertiser-rules",
		"type":                 "object",
		"additionalProperties": false,
		"properties": map[string]any{
			"global":            map[string]any{"type": "object", "description": "Values of a parent chart; this chart uses none of them."},
			"enabled":           map[string]any{"type": "boolean", "description": "For the `condition` of a parent chart; not used here."},
			"keep":              map[string]any{"type": "boolean"},
			"commonLabels":      map[string]any{"type": "object", "additionalProperties": labels},
			"commonAnnotations": map[string]any{"type": "object", "additionalProperties": strings},
			"rules": map[string]any{
				"type":                 "object",
				"propertyNames":        map[string]any{"pattern": "^[a-z0-9]([-a-z0-9.]*[a-z0-9])?$", "maxLength": 253},
				"additionalProperties": spec,
			},
		},
	}
	var out bytes.Buffer
	encoder := json.NewEncoder(&out)
	encoder.SetEscapeHTML(false)
	encoder.SetIndent("", "  ")
	err = encoder.Encode(whole)
	return out.Bytes(), err
}

func merge(into, from map[string]any) {
	for key, value := range from {
		inner, isMap := value.(map[string]any)
		if known, ok := into[key].(map[string]any); ok && isMap {
			merge(known, inner)
		} else {
			into[key] = value
		}
	}
}
