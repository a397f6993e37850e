// The oracle returns results of Kubernetes' own code, with which the Rust code under test has to agree.
//
// It reads one JSON-encoded string per line (so that a test string may contain control characters) and
// prints one line for each:
//
//	oracle quantity       {"value": "1000", "canonical": "1k"} or {"error": "..."}
//	oracle resource-name  true or false, as do subdomain, label-key and label-value
//	oracle pod-requests   for a Pod: {"example.com/dongle": "3"}, or {"error": "..."}
//	oracle yaml           for a document, as kubectl converts it: {"json": ...}, or {"error": "..."}
//	oracle selector       for {"selector": a LabelSelector, "labels": {...}}: true or false, or {"error": "..."}
//	oracle can-schedule   for {"pod": a Pod, "nodes": [...], "pods": [...]}: what the first filter of the scheduler that rejects
//	                      each node reports, or "", by node; or {"error": "..."}
package main

import (
	"bufio"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	"k8s.io/apimachinery/pkg/api/validate/content"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/validation"
	"k8s.io/apimachinery/pkg/labels"
	resourcehelper "k8s.io/component-helpers/resource"
	"k8s.io/kubernetes/pkg/apis/core"
	"k8s.io/kubernetes/pkg/apis/core/helper"
	"sigs.k8s.io/yaml"
)

type quantityAnswer struct {
	Value     string `json:"value,omitempty"`
	Canonical string `json:"canonical,omitempty"`
	Error     string `json:"error,omitempty"`
}

func main() {
	var mode string
	if len(os.Args) == 2 {
		mode = os.Args[1]
	}
	var answer func(string) any
	switch mode {
	case "quantity":
		answer = func(input string) any { return quantity(input) }
	case "resource-name":
		answer = func(input string) any { return helper.IsExtendedResourceName(core.ResourceName(input)) }
	case "subdomain":
		answer = func(input string) any { return len(content.IsDNS1123Subdomain(input)) == 0 }
	case "label-key":
		answer = func(input string) any { return len(content.IsLabelKey(input)) == 0 }
	case "label-value":
		answer = func(input string) any { return len(content.IsLabelValue(input)) == 0 }
	case "pod-requests":
		answer = func(input string) any { return podRequests(input) }
	case "yaml":
		answer = func(input string) any { return toJSON(input) }
	case "selector":
		answer = func(input string) any { return selects(input) }
	case "can-schedule":
		answer = func(input string) any { return canSchedule(input) }
	default:
		fail(errors.New("usage: oracle quantity|resource-name|subdomain|label-key|label-value|pod-requests|selector|yaml|can-schedule"))
	}
	if err := run(os.Stdin, os.Stdout, answer); err != nil {
		fail(err)
	}
}

func fail(err error) {
	fmt.Fprintln(os.Stderr, "oracle:", err)
	os.Exit(1)
}

func run(in io.Reader, out io.Writer, answer func(string) any) error {
	lines, answers := bufio.NewReader(in), bufio.NewWriter(out)
	encoder := json.NewEncoder(answers)
	for {
		// Flush for a client that waits for each result before it sends the next input.
		if lines.Buffered() == 0 {
			if err := answers.Flush(); err != nil {
				return err
			}
		}
		line, err := lines.ReadBytes('\n')
		if err == io.EOF && len(line) == 0 {
			return nil
		}
		if err != nil && err != io.EOF {
			return err
		}
		var input string
		if err := json.Unmarshal(line, &input); err != nil {
			return fmt.Errorf("line %q: %w", line, err)
		}
		if err := encoder.Encode(answer(input)); err != nil {
			return err
		}
	}
}

func quantity(input string) (answer quantityAnswer) {
	// Some exponents make the parser panic; report that as an error.
	defer func() {
		if cause := recover(); cause != nil {
			answer = quantityAnswer{Error: fmt.Sprintf("panic: %v", cause)}
		}
	}()
	parsed, err := resource.ParseQuantity(input)
	if err != nil {
		return quantityAnswer{Error: err.Error()}
	}
	// Not String(), which may repeat the input. Before AsDec(), which changes the representation.
	number, suffix := parsed.CanonicalizeBytes(nil)
	canonical := string(number) + string(suffix)
	value := parsed.AsDec()
	if value.Scale() < -10000 && value.Sign() != 0 {
		// Written out, the largest exponents would need gigabytes of zeros.
		return quantityAnswer{Value: fmt.Sprintf("%ve%v", value.UnscaledBig(), -int64(value.Scale())), Canonical: canonical}
	}
	return quantityAnswer{Value: value.String(), Canonical: canonical}
}

// podRequests counts like the scheduler, without native resources.
func podRequests(input string) map[string]string {
	var pod corev1.Pod
	if err := json.Unmarshal([]byte(input), &pod); err != nil {
		return map[string]string{"error": err.Error()}
	}
	requests := map[string]string{}
	options := resourcehelper.PodResourcesOptions{UseStatusResources: true}
	for name, quantity := range resourcehelper.PodRequests(&pod, options) {
		if helper.IsExtendedResourceName(core.ResourceName(name)) && !quantity.IsZero() {
			requests[string(name)] = quantity.AsDec().String()
		}
	}
	return requests
}

// selects returns whether a selector that the API server accepts selects labels.
func selects(input string) any {
	fail := func(err error) any { return map[string]string{"error": err.Error()} }
	var question struct {
		Selector metav1.LabelSelector
		Labels   labels.Set
	}
	if err := json.Unmarshal([]byte(input), &question); err != nil {
		return fail(err)
	}
	options := validation.LabelSelectorValidationOptions{}
	if errs := validation.ValidateLabelSelector(&question.Selector, options, nil); len(errs) > 0 {
		return fail(errs.ToAggregate())
	}
	selector, err := metav1.LabelSelectorAsSelector(&question.Selector)
	if err != nil {
		return fail(err)
	}
	return selector.Matches(question.Labels)
}

type jsonAnswer struct {
	JSON  json.RawMessage `json:"json,omitempty"`
	Error string          `json:"error,omitempty"`
}

func toJSON(input string) (answer jsonAnswer) {
	defer func() {
		if panicked := recover(); panicked != nil {
			answer = jsonAnswer{Error: fmt.Sprint("panic: ", panicked)}
		}
	}()
	converted, err := yaml.YAMLToJSON([]byte(input))
	if err != nil {
		return jsonAnswer{Error: err.Error()}
	}
	return jsonAnswer{JSON: converted}
}
