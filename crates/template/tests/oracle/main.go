// The oracle: reads cases (JSON lines) from standard input, fills each template with Go's own text/template and
// sprig, and writes the lines again with what came out. Only what it prints is kept; nothing of ours calls it
// at run time. Run by the test `golden` when SLIPWAY_ORACLE=1.
package main

import (
	"bufio"
	"bytes"
	"encoding/json"
	"os"
	"regexp"
	"strings"
	"text/template"

	"github.com/Masterminds/sprig/v3"
	"github.com/gosimple/slug"
	"sigs.k8s.io/yaml"
)

type testCase struct {
	Template string                       `json:"template"`
	Data     map[string]any               `json:"data,omitempty"`
	Maps     map[string]map[string]string `json:"maps,omitempty"`
	Lists    map[string][]string          `json:"lists,omitempty"`
	Options  []string                     `json:"options,omitempty"`
	Out      *string                      `json:"out,omitempty"`
	Err      string                       `json:"err,omitempty"`
}

var notInNames = regexp.MustCompile("[^-a-z0-9.]")

func normalize(name string) string {
	name = notInNames.ReplaceAllString(strings.ToLower(name), "-")
	if len(name) > 253 {
		name = name[:253]
	}
	return strings.Trim(name, "-.")
}

func slugify(args ...any) string {
	most, smart, name := 50, true, ""
	for i, arg := range args {
		switch {
		case i == len(args)-1:
			name = arg.(string)
		case i == 0:
			most = arg.(int)
		case i == 1:
			smart = arg.(bool)
		}
	}
	slug.EnableSmartTruncate, slug.MaxLength = smart, most
	return slug.Make(normalize(name))
}

func functions() template.FuncMap {
	all := sprig.TxtFuncMap()
	for _, name := range []string{"env", "expandenv", "getHostByName"} {
		delete(all, name)
	}
	all["normalize"] = normalize
	all["slugify"] = slugify
	all["toYaml"] = func(v any) (string, error) {
		text, err := yaml.Marshal(v)
		return strings.TrimSuffix(string(text), "\n"), err
	}
	all["fromYaml"] = func(text string) (map[string]any, error) {
		m := map[string]any{}
		err := yaml.Unmarshal([]byte(text), &m)
		return m, err
	}
	all["fromYamlArray"] = func(text string) ([]any, error) {
		a := []any{}
		err := yaml.Unmarshal([]byte(text), &a)
		return a, err
	}
	return all
}

func (c *testCase) run() {
	c.Out, c.Err = nil, ""
	data := map[string]any{}
	for k, v := range c.Data {
		data[k] = v
	}
	for k, v := range c.Maps {
		data[k] = v
	}
	for k, v := range c.Lists {
		data[k] = v
	}
	t, err := template.New("case").Funcs(functions()).Option(c.Options...).Parse(c.Template)
	var out bytes.Buffer
	if err == nil {
		err = t.Execute(&out, data)
	}
	if err != nil {
		c.Err = err.Error()
		return
	}
	text := out.String()
	c.Out = &text
}

func main() {
	in := bufio.NewScanner(os.Stdin)
	in.Buffer(nil, 1<<24)
	out := json.NewEncoder(os.Stdout)
	out.SetEscapeHTML(false)
	for in.Scan() {
		var c testCase
		if err := json.Unmarshal(in.Bytes(), &c); err != nil {
			panic(err)
		}
		c.run()
		if err := out.Encode(c); err != nil {
			panic(err)
		}
	}
}
