// Health prints how GitOps tools evaluate objects: the status by kstatus, which Flux and Helm use, and the health
// that the Lua script in an argocd-cm computes. It reads an object or a list of them, as JSON or YAML.
//
//	kubectl get ner -o json | health examples/gitops/argocd/argocd-cm.yaml
package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"time"

	"github.com/fluxcd/cli-utils/pkg/kstatus/status"
	lua "github.com/yuin/gopher-lua"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/yaml"
)

// Verdict has the results of both tools for one object.
type Verdict struct {
	Name    string `json:"name"`
	Kstatus Result `json:"kstatus"`
	ArgoCD  Result `json:"argocd"`
}

// Result is the result of one tool.
type Result struct {
	Status  string `json:"status"`
	Message string `json:"message"`
}

func main() {
	verdicts, err := run(os.Args[1:], os.Stdin)
	if err == nil {
		err = json.NewEncoder(os.Stdout).Encode(verdicts)
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, "error:", err)
		os.Exit(1)
	}
}

func run(args []string, input io.Reader) ([]Verdict, error) {
	if len(args) != 1 {
		return nil, errors.New("one argument is needed: the path of an argocd-cm")
	}
	config, err := os.ReadFile(args[0])
	if err != nil {
		return nil, err
	}
	text, err := io.ReadAll(input)
	if err != nil {
		return nil, err
	}
	text, err = yaml.YAMLToJSON(text)
	if err != nil {
		return nil, err
	}
	// Decodes whole numbers as integers, which kstatus relies on.
	object, _, err := unstructured.UnstructuredJSONScheme.Decode(text, nil, nil)
	if err != nil {
		return nil, err
	}
	var objects []unstructured.Unstructured
	switch object := object.(type) {
	case *unstructured.Unstructured:
		objects = append(objects, *object)
	case *unstructured.UnstructuredList:
		objects = object.Items
	}
	verdicts := []Verdict{}
	for _, object := range objects {
		verdict, err := judge(config, &object)
		if err != nil {
			return nil, fmt.Errorf("%s %s: %w", object.GetKind(), object.GetName(), err)
		}
		verdicts = append(verdicts, verdict)
	}
	return verdicts, nil
}

func judge(config []byte, object *unstructured.Unstructured) (Verdict, error) {
	computed, err := status.Compute(object)
	if err != nil {
		return Verdict{}, err
	}
	script, err := healthScript(config, object)
	if err != nil {
		return Verdict{}, err
	}
	health, err := runScript(script, object.Object)
	if err != nil {
		return Verdict{}, err
	}
	kstatus := Result{Status: computed.Status.String(), Message: computed.Message}
	return Verdict{Name: object.GetName(), Kstatus: kstatus, ArgoCD: health}, nil
}

// healthScript finds the script for an object's kind under the key that Argo CD uses.
func healthScript(config []byte, object *unstructured.Unstructured) (string, error) {
	var configMap struct{ Data map[string]string }
	if err := yaml.Unmarshal(config, &configMap); err != nil {
		return "", err
	}
	kind := object.GroupVersionKind().GroupKind()
	key := fmt.Sprintf("resource.customizations.health.%s_%s", kind.Group, kind.Kind)
	script, found := configMap.Data[key]
	if !found {
		return "", fmt.Errorf("the ConfigMap has no %s", key)
	}
	return script, nil
}

// runScript runs Lua as Argo CD does (util/lua in its repository): on the same engine, for a second at most,
// and with the libraries base, package and table only; others require useOpenLibs.
func runScript(script string, object map[string]any) (Result, error) {
	state := lua.NewState(lua.Options{SkipOpenLibs: true})
	defer state.Close()
	for name, open := range map[string]lua.LGFunction{
		lua.LoadLibName: lua.OpenPackage,
		lua.BaseLibName: lua.OpenBase,
		lua.TabLibName:  lua.OpenTable,
	} {
		call := lua.P{Fn: state.NewFunction(open), Protect: true}
		if err := state.CallByParam(call, lua.LString(name)); err != nil {
			return Result{}, err
		}
	}
	ctx, cancel := context.WithTimeout(context.Background(), time.Second)
	defer cancel()
	state.SetContext(ctx)
	state.SetGlobal("obj", toLua(state, object))
	if err := state.DoString(script); err != nil {
		return Result{}, err
	}
	table, ok := state.Get(-1).(*lua.LTable)
	if !ok {
		return Result{}, fmt.Errorf("the script returns a %s, not a table", state.Get(-1).Type())
	}
	health := Result{Status: lua.LVAsString(table.RawGetString("status"))}
	switch message := table.RawGetString("message").(type) {
	case lua.LString:
		health.Message = string(message)
	case *lua.LNilType:
	default:
		return Result{}, fmt.Errorf("the script's message is a %s", message.Type())
	}
	switch health.Status {
	case "Healthy", "Progressing", "Degraded", "Suspended":
		return health, nil
	default:
		return Result{}, fmt.Errorf("the script returns the status %q, which Argo CD does not know", health.Status)
	}
}

// toLua converts lists and maps to tables, and numbers to numbers.
func toLua(state *lua.LState, value any) lua.LValue {
	switch value := value.(type) {
	case bool:
		return lua.LBool(value)
	case string:
		return lua.LString(value)
	case int64:
		return lua.LNumber(value)
	case float64:
		return lua.LNumber(value)
	case []any:
		list := state.CreateTable(len(value), 0)
		for _, item := range value {
			list.Append(toLua(state, item))
		}
		return list
	case map[string]any:
		table := state.CreateTable(0, len(value))
		for key, item := range value {
			table.RawSetString(key, toLua(state, item))
		}
		return table
	default:
		return lua.LNil
	}
}
