// Writes the reference of the API, from the CRD. With --check it fails where the file differs.
package main

import (
	"bytes"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"go.yaml.in/yaml/v3"

	"noderesource.dev/tests/tools/generated"
)

const (
	crdFile   = "crds/noderesource.dev_nodeextendedresources.yaml"
	reference = "docs/api.md"
)

type crd struct {
	Spec struct {
		Group string
		Names struct {
			Kind       string
			Plural     string
			ShortNames []string `yaml:"shortNames"`
		}
		Scope    string
		Versions []struct {
			Name   string
			Schema struct {
				OpenAPIV3Schema schema `yaml:"openAPIV3Schema"`
			}
		}
	}
}

type schema struct {
	Type                 string
	Format               string
	Description          string
	Default              any
	Enum                 []any
	Pattern              string
	Minimum, Maximum     *float64
	MinLength            *int `yaml:"minLength"`
	MaxLength            *int `yaml:"maxLength"`
	MinItems             *int `yaml:"minItems"`
	MaxItems             *int `yaml:"maxItems"`
	MinProperties        *int `yaml:"minProperties"`
	MaxProperties        *int `yaml:"maxProperties"`
	IntOrString          bool `yaml:"x-kubernetes-int-or-string"`
	Required             []string
	Properties           map[string]schema
	Items                *schema
	AdditionalProperties *schema                          `yaml:"additionalProperties"`
	Validations          []struct{ Rule, Message string } `yaml:"x-kubernetes-validations"`
}

func main() {
	generated.Main("apireference", func(project string) (generated.File, error) {
		text, err := write(filepath.Join(project, crdFile))
		path := filepath.Join(project, reference)
		return generated.File{Path: path, Text: text, Source: crdFile, Target: "crds"}, err
	})
}

func write(path string) ([]byte, error) {
	text, err := os.ReadFile(path)
	if err != nil {
		return nil, err
	}
	var kind crd
	if err := yaml.Unmarshal(text, &kind); err != nil {
		return nil, fmt.Errorf("%s: %w", path, err)
	}
	if len(kind.Spec.Versions) == 0 {
		return nil, fmt.Errorf("%s: has no version", path)
	}
	out := new(bytes.Buffer)
	names := kind.Spec.Names
	fmt.Fprintf(out, "# API reference: %s\n\n", names.Kind)
	fmt.Fprintf(out, "Generated from [%s](../%s) by `make crds`; `kubectl explain %s` prints the same.\n", crdFile, crdFile, names.ShortNames[0])
	for _, version := range kind.Spec.Versions {
		top := version.Schema.OpenAPIV3Schema
		fmt.Fprintf(out, "\n## %s/%s\n\n", kind.Spec.Group, version.Name)
		fmt.Fprintf(out, "%s Scope: %s. Short name: `%s`.\n", strings.TrimSpace(top.Description), kind.Spec.Scope, names.ShortNames[0])
		for _, part := range []string{"spec", "status"} {
			schema := top.Properties[part]
			fmt.Fprintf(out, "\n### %s\n\n%s\n\n", part, prose(schema.Description))
			fmt.Fprintln(out, "| field | type | description |\n|---|---|---|")
			rows(out, part+".", schema)
			if messages := validations(part, schema); len(messages) > 0 {
				fmt.Fprintf(out, "\nThe API server rejects other values with these messages:\n\n| field | message |\n|---|---|\n%s", strings.Join(messages, ""))
			}
		}
	}
	return out.Bytes(), nil
}

// Fields that are required come first, as one writes them.
func order(parent schema) []string {
	names := slices.Sorted(maps.Keys(parent.Properties))
	slices.SortStableFunc(names, func(a, b string) int {
		switch required := slices.Contains(parent.Required, a); {
		case required == slices.Contains(parent.Required, b):
			return 0
		case required:
			return -1
		default:
			return 1
		}
	})
	return names
}

func rows(out *bytes.Buffer, prefix string, parent schema) {
	for _, name := range order(parent) {
		field, path := parent.Properties[name], prefix+name
		text := []string{prose(field.Description)}
		if slices.Contains(parent.Required, name) {
			text = append(text, "Required.")
		}
		text = append(text, limits(field)...)
		fmt.Fprintf(out, "| `%s` | %s | %s |\n", path, kindOf(field), strings.Join(text, " "))
		switch {
		case field.Items != nil:
			rows(out, path+"[].", *field.Items)
		case field.Type == "object":
			rows(out, path+".", field)
		}
	}
}

func kindOf(field schema) string {
	switch {
	case field.IntOrString:
		return "integer or string"
	case field.Items != nil:
		return "list of " + kindOf(*field.Items)
	case field.AdditionalProperties != nil:
		return "map of " + kindOf(*field.AdditionalProperties)
	case field.Format == "date-time":
		return "time"
	default:
		return field.Type
	}
}

func limits(field schema) (text []string) {
	if field.Default != nil && field.Default != "" {
		text = append(text, fmt.Sprintf("Default: `%v`.", field.Default))
	}
	if len(field.Enum) > 0 {
		var values []string
		for _, value := range field.Enum {
			values = append(values, fmt.Sprintf("`%v`", value))
		}
		text = append(text, "One of "+strings.Join(values, ", ")+".")
	}
	for _, bound := range []struct {
		name     string
		from, to *int
	}{
		{"characters", field.MinLength, field.MaxLength},
		{"items", field.MinItems, field.MaxItems},
		{"entries", field.MinProperties, field.MaxProperties},
	} {
		switch {
		case bound.from != nil && bound.to != nil:
			text = append(text, fmt.Sprintf("%d to %d %s.", *bound.from, *bound.to, bound.name))
		case bound.to != nil:
			text = append(text, fmt.Sprintf("At most %d %s.", *bound.to, bound.name))
		case bound.from != nil:
			text = append(text, fmt.Sprintf("At least %d %s.", *bound.from, bound.name))
		}
	}
	if field.Minimum != nil {
		text = append(text, fmt.Sprintf("At least %.0f.", *field.Minimum))
	}
	if field.Maximum != nil {
		text = append(text, fmt.Sprintf("At most %.0f.", *field.Maximum))
	}
	if field.Pattern != "" {
		text = append(text, "Pattern: `"+strings.ReplaceAll(field.Pattern, "|", `\|`)+"`.")
	}
	return text
}

func validations(path string, field schema) (messages []string) {
	for _, check := range field.Validations {
		messages = append(messages, fmt.Sprintf("| `%s` | %s |\n", path, strings.ReplaceAll(prose(check.Message), "<", "&lt;")))
	}
	for _, name := range order(field) {
		messages = append(messages, validations(path+"."+name, field.Properties[name])...)
	}
	if field.Items != nil {
		messages = append(messages, validations(path+"[]", *field.Items)...)
	}
	if field.AdditionalProperties != nil {
		messages = append(messages, validations(path+".*", *field.AdditionalProperties)...)
	}
	return messages
}

// A description in one line of a table.
func prose(text string) string {
	return strings.ReplaceAll(strings.Join(strings.Fields(text), " "), "|", `\|`)
}
