// Calls of Apache's Go admin library. Standard input: one call a line, ["Group.Method", argument, ...], names of topics
// and namespaces as strings. Standard output: one line for each, {"is": [values]} or {"code": …, "error": …}.
// Arguments: HTTP URL; "v3" for the version of the interface that functions, connectors and packages need, as pulsarctl
// sets it; "methods" instead lists every call of the library.
package main

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"reflect"
	"strings"

	"github.com/apache/pulsar-client-go/pulsaradmin/pkg/admin"
	"github.com/apache/pulsar-client-go/pulsaradmin/pkg/admin/config"
	"github.com/apache/pulsar-client-go/pulsaradmin/pkg/rest"
	"github.com/apache/pulsar-client-go/pulsaradmin/pkg/utils"
)

type answer struct {
	Is    []any  `json:"is,omitempty"`
	Code  int    `json:"code,omitempty"`
	Error string `json:"error,omitempty"`
}

var (
	contexts = reflect.TypeFor[context.Context]()
	failures = reflect.TypeFor[error]()
)

func must(err error) {
	if err != nil {
		panic(err)
	}
}

// groups are the parts of the library by name; both kinds of topic policies beside them.
func groups(client admin.Client) map[string]reflect.Value {
	found := map[string]reflect.Value{}
	whole := reflect.ValueOf(client)
	kind := reflect.TypeFor[admin.Client]()
	for i := range kind.NumMethod() {
		name := kind.Method(i).Name
		found[name] = whole.MethodByName(name).Call(nil)[0]
	}
	for name, global := range map[string]bool{"TopicPolicies": false, "GlobalTopicPolicies": true} {
		policies, err := admin.TopicPoliciesOf(client, global)
		must(err)
		found[name] = reflect.ValueOf(&policies).Elem()
	}
	return found
}

// value is an argument as the library takes it.
func value(kind reflect.Type, said json.RawMessage) (reflect.Value, error) {
	var text string
	switch kind {
	case reflect.TypeFor[utils.TopicName](), reflect.TypeFor[utils.NameSpaceName]():
		if err := json.Unmarshal(said, &text); err != nil {
			return reflect.Value{}, err
		}
		if kind == reflect.TypeFor[utils.TopicName]() {
			name, err := utils.GetTopicName(text)
			if err != nil {
				return reflect.Value{}, err
			}
			return reflect.ValueOf(*name), nil
		}
		name, err := utils.GetNamespaceName(text)
		if err != nil {
			return reflect.Value{}, err
		}
		return reflect.ValueOf(*name), nil
	}
	made := reflect.New(kind)
	if err := json.Unmarshal(said, made.Interface()); err != nil || kind.Kind() != reflect.Struct {
		return made.Elem(), err
	}
	var fields map[string]json.RawMessage
	if err := json.Unmarshal(said, &fields); err != nil {
		return made.Elem(), err
	}
	for i := range kind.NumField() { // parts of a path are no part of the body
		given, named := fields[kind.Field(i).Name]
		if named && kind.Field(i).Tag.Get("json") == "-" {
			if err := json.Unmarshal(given, made.Elem().Field(i).Addr().Interface()); err != nil {
				return made.Elem(), err
			}
		}
	}
	return made.Elem(), nil
}

func call(method reflect.Value, said []json.RawMessage) answer {
	var in []reflect.Value
	kind := method.Type()
	for i := range kind.NumIn() {
		wanted := kind.In(i)
		if wanted == contexts {
			in = append(in, reflect.ValueOf(context.Background()))
			continue
		}
		if kind.IsVariadic() && i == kind.NumIn()-1 {
			wanted = wanted.Elem()
			if len(said) == 0 {
				break
			}
		}
		if len(said) == 0 {
			return answer{Error: "too few arguments"}
		}
		made, err := value(wanted, said[0])
		if err != nil {
			return answer{Error: "argument: " + err.Error()}
		}
		in, said = append(in, made), said[1:]
	}
	if len(said) != 0 {
		return answer{Error: "too many arguments"}
	}
	out := answer{Is: []any{}}
	for _, each := range method.Call(in) {
		if each.Type() != failures {
			out.Is = append(out.Is, each.Interface())
			continue
		}
		if each.IsNil() {
			continue
		}
		err, known := each.Interface().(error), rest.Error{}
		if errors.As(err, &known) {
			return answer{Code: known.Code, Error: known.Reason}
		}
		return answer{Error: err.Error()}
	}
	return out
}

func main() {
	settings := &config.Config{WebServiceURL: os.Args[1]}
	if len(os.Args) > 2 && os.Args[2] == "v3" {
		settings.PulsarAPIVersion = config.V3
	}
	client, err := admin.New(settings)
	must(err)
	all := groups(client)
	if len(os.Args) > 2 && os.Args[2] == "methods" {
		for name, group := range all {
			for i := range group.Type().NumMethod() {
				fmt.Println(name+"."+group.Type().Method(i).Name, group.Method(i).Type())
			}
		}
		return
	}
	lines := bufio.NewScanner(os.Stdin)
	lines.Buffer(nil, 1<<20)
	out := json.NewEncoder(os.Stdout)
	for lines.Scan() {
		var said []json.RawMessage
		must(json.Unmarshal(lines.Bytes(), &said))
		var name string
		must(json.Unmarshal(said[0], &name))
		group, method, _ := strings.Cut(name, ".")
		found := all[group].MethodByName(method)
		if !found.IsValid() {
			panic("no such call: " + name)
		}
		must(out.Encode(call(found, said[1:])))
	}
	must(lines.Err())
}
