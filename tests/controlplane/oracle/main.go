// The oracle answers, from Kubernetes' own code, what the Rust code under test has to agree with.
//
// It reads one JSON-encoded string a line (so that a test string may hold control characters) and
// answers with one line each:
//
//	oracle quantity       {"value": "1000", "canonical": "1k"} or {"error": "..."}
//	oracle resource-name  true or false, as do subdomain, label-key and label-value
//	oracle pod-requests   for a Pod: {"example.com/dongle": "3"}, or {"error": "..."}
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
	resourcehelper "k8s.io/component-helpers/resource"
	"k8s.io/kubernetes/pkg/apis/core"
	"k8s.io/kubernetes/pkg/apis/core/helper"
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
	default:
		fail(errors.New("usage: oracle quantity|resource-name|subdomain|label-key|label-value|pod-requests"))
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
		// Whoever waits for an answer before the next question has it.
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
	// Some exponents make the parser panic; that is an answer too.
	defer func() {
		if cause := recover(); cause != nil {
			answer = quantityAnswer{Error: fmt.Sprintf("panic: %v", cause)}
		}
	}()
	parsed, err := resource.ParseQuantity(input)
	if err != nil {
		return quantityAnswer{Error: err.Error()}
	}
	// Not String(): that may repeat the input. Before AsDec(): that changes the representation.
	number, suffix := parsed.CanonicalizeBytes(nil)
	canonical := string(number) + string(suffix)
	value := parsed.AsDec()
	if value.Scale() < -10000 && value.Sign() != 0 {
		// Written out, the largest exponents take gigabytes of zeros.
		return quantityAnswer{Value: fmt.Sprintf("%ve%v", value.UnscaledBig(), -int64(value.Scale())), Canonical: canonical}
	}
	return quantityAnswer{Value: value.String(), Canonical: canonical}
}

// podRequests counts as the scheduler does; what it says of native resources is left out.
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
