// Writes the table of values into a chart's README, between its two markers, from the comments in
// values.yaml. With --check it only reports whether the table is up to date.
package main

import (
	"bytes"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"strings"

	"go.yaml.in/yaml/v3"

	"noderesource.dev/tests/tools/generated"
)

const (
	begin = "<!-- values: made by `make chart-docs` -->\n"
	end   = "<!-- end of values -->\n"
)

func main() {
	generated.Main("valuestable", func(chart string) (generated.File, error) {
		readme, values := filepath.Join(chart, "README.md"), filepath.Join(chart, "values.yaml")
		before, err := os.ReadFile(readme)
		if err != nil {
			return generated.File{}, err
		}
		after, err := replace(before, values)
		return generated.File{Path: readme, Text: after, Source: "values.yaml", Target: "chart-docs"}, err
	})
}

func replace(readme []byte, values string) ([]byte, error) {
	head, rest, found := bytes.Cut(readme, []byte(begin))
	_, tail, closed := bytes.Cut(rest, []byte(end))
	if !found || !closed {
		return nil, fmt.Errorf("README.md: has no place for the table: write %q and %q", begin, end)
	}
	text, err := os.ReadFile(values)
	if err != nil {
		return nil, err
	}
	var document yaml.Node
	if err := yaml.Unmarshal(text, &document); err != nil {
		return nil, fmt.Errorf("%s: %w", values, err)
	}
	table := bytes.NewBufferString("| value | default | description |\n|---|---|---|\n")
	if err := rows(table, "", document.Content[0]); err != nil {
		return nil, fmt.Errorf("%s: %w", values, err)
	}
	return bytes.Join([][]byte{head, []byte(begin), table.Bytes(), []byte(end), tail}, nil), nil
}

// A value with a comment becomes a row; for a map without a comment, its entries become rows.
func rows(table *bytes.Buffer, prefix string, mapping *yaml.Node) error {
	for i := 0; i+1 < len(mapping.Content); i += 2 {
		key, value := mapping.Content[i], mapping.Content[i+1]
		path := prefix + key.Value
		// An empty line separates the file's own comment, which comes first.
		paragraphs := strings.Split(key.HeadComment, "\n\n")
		comment := strings.TrimPrefix(paragraphs[len(paragraphs)-1], "# ")
		comment = strings.ReplaceAll(comment, "\n# ", " ")
		switch {
		case comment != "":
			fallback, err := inline(value)
			if err != nil {
				return err
			}
			comment = strings.ReplaceAll(comment, "|", "\\|")
			fmt.Fprintf(table, "| `%s` | `%s` | %s |\n", path, fallback, comment)
		case value.Kind == yaml.MappingNode && len(value.Content) > 0:
			if err := rows(table, path+".", value); err != nil {
				return err
			}
		default:
			return fmt.Errorf("line %d: %s has no comment that describes it", key.Line, path)
		}
	}
	return nil
}

// The value as JSON, on one line.
func inline(value *yaml.Node) (string, error) {
	var decoded any
	if err := value.Decode(&decoded); err != nil {
		return "", err
	}
	var text bytes.Buffer
	encoder := json.NewEncoder(&text)
	encoder.SetEscapeHTML(false)
	if err := encoder.Encode(decoded); err != nil {
		return "", err
	}
	return strings.TrimSpace(text.String()), nil
}
