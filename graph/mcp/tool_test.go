package mcp

import (
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"math/rand/v2"
	"net/http"
	"net/http/httptest"
	"reflect"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/jsonschema-go/jsonschema"
	"github.com/vektah/gqlparser/v2"

	"github.com/tallygate/tallygate/db/model"
	"github.com/tallygate/tallygate/graph/auth"
	"github.com/tallygate/tallygate/graph/generated"
	"github.com/tallygate/tallygate/graph/inprocess"
	"github.com/tallygate/tallygate/graph/limits"
	"github.com/tallygate/tallygate/tools/testkit"
)

// newServer returns a server before a GraphQL handler of the test.
func newServer(t testing.TB, graphQL http.HandlerFunc) (*server, *testkit.Log) {
	t.Helper()
	log := &testkit.Log{}
	schema := generated.NewExecutableSchema(generated.Config{}).Schema()
	handler, err := New(Options{
		API: inprocess.New(inprocess.Options{
			GraphQL: graphQL, Auth: &auth.Auth{}, Now: time.Now, Log: slog.New(slog.NewJSONHandler(log, nil)),
		}),
		Schema: schema, Limits: limits.New(0), Timeout: time.Minute,
	})
	testkit.NoError(t, err)
	return handler.(*server), log
}

// TestMetrics checks that the tools know the figures of GraphQL, no more and no less.
func TestMetrics(t *testing.T) {
	s, _ := newServer(t, nil)
	var want []any
	for _, field := range s.Schema.Types["ReportMetrics"].Fields {
		if field.Name != "comparison" {
			want = append(want, field.Name)
		}
	}

	report := s.tool(t, "report")
	known := report.input.Schema().Properties["metrics"].Items.Enum
	testkit.EqualSlices(t, known, want, "the argument metrics")
	d, err := report.compose(map[string]any{"metrics": want}, true)
	testkit.NoError(t, err)
	for _, field := range want {
		if !strings.Contains(d.text, fmt.Sprintf(" %s ", field)) {
			t.Errorf("%s is not selected by\n%s", field, d.text)
		}
	}
}

// tool returns a tool by its name.
func (s *server) tool(t testing.TB, name string) *tool {
	t.Helper()
	i := slices.IndexFunc(s.tools, func(tool *tool) bool { return tool.operation.Name == name })
	if i < 0 {
		t.Fatalf("no tool %s", name)
	}
	return s.tools[i]
}

// TestEveryArgumentIsDescribed checks that the list of tools describes each argument, also of
// objects in lists.
func TestEveryArgumentIsDescribed(t *testing.T) {
	s, _ := newServer(t, nil)
	var check func(path string, schema *jsonschema.Schema)
	check = func(path string, schema *jsonschema.Schema) {
		for name, argument := range schema.Properties {
			if argument.Description == "" {
				t.Errorf("%s.%s has no description", path, name)
			}
			if argument.Items != nil {
				check(path+"."+name, argument.Items)
			}
		}
	}
	for _, tool := range s.tools {
		check(tool.operation.Name, tool.input.Schema())
	}
}

// TestEveryArgumentIsUsed checks that each argument of a call is a variable of the request, chooses
// the fields, or is an error that names it: none is ignored.
func TestEveryArgumentIsUsed(t *testing.T) {
	s, _ := newServer(t, nil)
	random := rand.New(rand.NewPCG(2, 2))
	for _, tool := range s.tools {
		for range 500 {
			reader := tool.readers() && random.IntN(2) == 0
			arguments, d, err := randomDocument(t, random, tool, reader)
			if err != nil {
				continue
			}
			for name := range arguments {
				if _, used := d.variables[name]; !used && name != "metrics" && !(name == "site" && reader) {
					t.Fatalf("%s %v: %s is ignored by\n%s", tool.operation.Name, arguments, name, d.text)
				}
			}
		}
	}
}

// TestUnusedArguments checks that an error of an argument without an effect names what it needs.
func TestUnusedArguments(t *testing.T) {
	s, _ := newServer(t, nil)
	for _, test := range []struct {
		tool, arguments string
		reader          bool
		want            string // "": none
	}{
		{"report", `{"site": "a", "after": "x"}`, false, "after needs the argument by."},
		{"report", `{"site": "a", "direction": "ASC", "by": "PAGE"}`, false, ""},
		{"report", `{"site": "a", "orderBy": "VISITS"}`, false, "orderBy needs the argument by."},
		{"report", `{"site": "a", "by": ""}`, false, `by: enum:  does not equal any of`},
		{"report", `{"site": "a", "search": ""}`, false, ""},
		{"report", `{"site": "other.example"}`, true, ""},
		{"report", `{"search": "x"}`, true, "search needs the argument by."},
		{"compare", `{"site": "a", "matchDayOfWeek": false}`, false, ""},
		{"compare", `{"site": "a", "compareFrom": "2026-11-20"}`, false, ""},
		{"cohorts", `{"site": "a", "from": "2026-11-20", "to": "2026-11-20", "period": "TODAY"}`, false, "Give either period, or from and to."},
		{"sites", `{"search": "x"}`, false, ""},
		{"sites", `{"search": "x"}`, true, "search does not apply to a shared link."},
		{"captcha", `{"days": 7}`, false, "days needs the argument sitekey."},
		{"captcha", `{"sitekey": "a", "after": "x"}`, false, "after does not go with the argument sitekey."},
		{"captcha", `{"sitekey": "a", "days": 7}`, false, ""},
		{"live", `{}`, false, "site is missing"},
		{"live", `{}`, true, ""},
		{"set_key_events", `{"site": "", "events": []}`, false, "site is missing"},
	} {
		tool := s.tool(t, test.tool)
		arguments, err := tool.arguments(json.RawMessage(test.arguments))
		if err == nil {
			_, err = tool.compose(arguments, test.reader)
		}
		switch {
		case test.want == "" && err != nil:
			t.Errorf("%s %s: %v", test.tool, test.arguments, err)
		case test.want != "" && (err == nil || !strings.HasPrefix(err.(*model.Error).Message, test.want)):
			t.Errorf("%s %s: %v, want %s", test.tool, test.arguments, err, test.want)
		}
	}
}

// TestDocumentOfACall checks the document and the variables of two calls: parts without their
// arguments are left out.
func TestDocumentOfACall(t *testing.T) {
	s, _ := newServer(t, nil)
	for _, test := range []struct {
		tool, want string
		arguments  map[string]any
		variables  map[string]any
		reader     bool
	}{
		{"report", "query report ($by: ReportDimension!, $orderBy: ReportMetric!, $first: Int!, $from: Date!, $to: Date!, $compare: " +
			"ReportComparisonKind!) { sharedSite { name domain timeZone hidesRevenue report(period: {from:$from,to:$to}, compare: " +
			"{kind:$compare}) { from to comparedFrom comparedTo timeZone asOf imported totals { visits comparison { visits } } " +
			"breakdown(by: $by, orderBy: {metric:$orderBy}, first: $first) { totalCount hasOther imported nodes { value onlyImported " +
			"metrics { visits comparison { visits } } } pageInfo { hasNextPage endCursor } } } } }",
			map[string]any{
				"site": "a.example", "from": "2026-11-01", "to": "2026-11-02", "compare": "PREVIOUS_YEAR",
				"metrics": []any{"visits"}, "by": "PAGE",
			},
			map[string]any{
				"from": "2026-11-01", "to": "2026-11-02", "compare": "PREVIOUS_YEAR", "by": "PAGE",
				"orderBy": "VISITORS", "first": int64(10),
			}, true},
		{"set_key_events", "mutation set_key_events ($site: ID!, $events: [String!]!) { updateSite(input: {siteId:$site,keyEvents:$events}) " +
			"{ site { id domain registeredEvents keyEvents } userErrors { field code message } } }",
			map[string]any{"site": "id", "events": []any{}}, map[string]any{"site": "id", "events": []any{}}, false},
	} {
		d, err := s.tool(t, test.tool).compose(test.arguments, test.reader)
		if err != nil || d.text != test.want || !reflect.DeepEqual(d.variables, test.variables) {
			t.Errorf("%s: %v, got\n%s, %v, want\n%s, %v", test.tool, err, d.text, d.variables, test.want, test.variables)
		}
	}
}

// randomArguments returns arguments that match their schemas, but for the number of items and
// required ones. They are the same in every run with the same seed.
func randomArguments(random *rand.Rand, arguments map[string]*jsonschema.Schema) map[string]any {
	chosen := map[string]any{}
	for _, name := range slices.Sorted(maps.Keys(arguments)) {
		if random.IntN(3) > 0 {
			chosen[name] = randomValue(random, arguments[name])
		}
	}
	return chosen
}

// randomDocument builds a document from random arguments. It returns the arguments without empty
// ones.
func randomDocument(t *testing.T, random *rand.Rand, tool *tool, reader bool) (map[string]any, *document, error) {
	t.Helper()
	text, err := json.Marshal(randomArguments(random, tool.input.Schema().Properties))
	testkit.NoError(t, err)
	arguments, err := tool.arguments(text)
	if err != nil {
		return nil, nil, err
	}
	if tool.changes() && arguments["site"] != nil {
		arguments["site"] = "id" // of the domain
	}
	d, err := tool.compose(arguments, reader)
	return arguments, d, err
}

func randomValue(random *rand.Rand, schema *jsonschema.Schema) any {
	texts := []string{"", "/", "a.example", "2026-11-20", "signup", "x\"}) { viewer { id } } #", "$site", "\x00", "🙂"}
	switch {
	case len(schema.Enum) > 0:
		return schema.Enum[random.IntN(len(schema.Enum))]
	case schema.Type == "integer":
		return int(*schema.Minimum) + random.IntN(int(*schema.Maximum))
	case schema.Type == "boolean":
		return random.IntN(2) == 0
	case schema.Type == "array":
		list := []any{}
		for range random.IntN(4) {
			list = append(list, randomValue(random, schema.Items))
		}
		return list
	case schema.Type == "object":
		return randomArguments(random, schema.Properties)
	}
	return texts[random.IntN(len(texts))]
}

// word is what a document may consist of: no text of an argument is part of it.
var word = regexp.MustCompile(`^[A-Za-z0-9_$!(){}:,\[\]\s]*$`)

// TestDocumentsMatchTheSchema builds documents from random arguments. Each that is built parses,
// and consists of the tool's own words.
func TestDocumentsMatchTheSchema(t *testing.T) {
	s, _ := newServer(t, nil)
	random := rand.New(rand.NewPCG(1, 1))
	built := make(map[string]int)

	for _, tool := range s.tools {
		name := tool.operation.Name
		for range 500 {
			arguments, d, err := randomDocument(t, random, tool, tool.readers() && random.IntN(2) == 0)
			if err != nil {
				if e, ok := errors.AsType[*model.Error](err); !ok || e.Code != "invalid_argument" {
					t.Errorf("%s %v: %v", name, arguments, err)
				}
				continue
			}
			built[name]++

			parsed, errs := gqlparser.LoadQueryWithRules(s.Schema, d.text, nil)
			if errs != nil {
				t.Fatalf("%s %v: %v in\n%s", name, arguments, errs, d.text)
			}
			if !word.MatchString(d.text) {
				t.Fatalf("%s %v: an argument is part of the document\n%s", name, arguments, d.text)
			}
			for _, variable := range parsed.Operations[0].VariableDefinitions {
				if _, ok := d.variables[variable.Variable]; !ok {
					t.Errorf("%s %v: %s has no value", name, arguments, variable.Variable)
				}
			}
		}
		if built[name] == 0 {
			t.Errorf("%s: no document was built", name)
		}
	}
}

// FuzzArguments calls tools with any arguments: the answer is a result or an error with a code, and
// GraphQL gets only documents of the tools.
func FuzzArguments(f *testing.F) {
	for _, seed := range []struct{ tool, arguments string }{
		{"report", `{"site": "a.example", "by": "PAGE", "first": 10, "interval": "DAY", "compare": "PREVIOUS_YEAR"}`},
		{"report", `{"site": "a.example", "filters": [{"dimension": "PAGE", "operator": "MATCHES", "values": ["/**"]}]}`},
		{"funnel", `{"site": "a.example", "steps": [{"page": "/"}, {"event": "signup"}]}`},
		{"journey", `{"site": "a.example", "page": "/", "following": 3}`},
		{"captcha", `{"sitekey": "x", "days": 30}`}, {"create_site", `{"domain": "\u0000"}`}, {"set_key_events", `{"site": "a", "events": []}`},
		{"sites", `{"first": 1e400}`}, {"live", `{"site": {"site": []}}`}, {"top", `null`}, {"top", `"x"`}, {"top", `{"by": "PAGE", "by": 7}`},
	} {
		f.Add(seed.tool, seed.arguments)
	}

	var sent string
	s, log := newServer(f, func(w http.ResponseWriter, r *http.Request) {
		var request struct{ Query string }
		if err := json.NewDecoder(r.Body).Decode(&request); err != nil {
			sent = err.Error()
		}
		sent = request.Query
		fmt.Fprint(w, `{"data":{}}`)
	})
	f.Fuzz(func(t *testing.T, name, arguments string) {
		i := slices.IndexFunc(s.tools, func(tool *tool) bool { return tool.operation.Name == name })
		if i < 0 {
			return
		}
		sent = ""
		c := &inprocess.Call{API: s.API, HTTP: httptest.NewRequest(http.MethodPost, Path, nil), Authorization: "Bearer tga_x"}
		_, err := s.call(c, s.tools[i], json.RawMessage(arguments))
		if err != nil {
			text := toolError(err).Content
			if shown := fmt.Sprint(text[0]); strings.Contains(shown, "INTERNAL") || len(shown) > 3*maxMessage {
				t.Errorf("%s %s: %s", name, arguments, shown)
			}
		}
		if !word.MatchString(sent) {
			t.Errorf("%s %s: GraphQL got %s", name, arguments, sent)
		}
		testkit.Equal(t, log.String(), "", "logged %s", log)
	})
}

// TestLargeAnswersAreRefused checks the bound of an answer's data.
func TestLargeAnswersAreRefused(t *testing.T) {
	s, _ := newServer(t, nil)
	sites := s.tool(t, "sites")
	d, err := sites.compose(map[string]any{}, false)
	testkit.NoError(t, err)
	fits := json.RawMessage(`{"sites":{"x":"` + strings.Repeat("x", maxData-len(`{"sites":{"x":""}}`)) + `"}}`)
	if _, err := s.answerOf(sites, d, &inprocess.Response{Data: fits}); err != nil {
		t.Error(err)
	}
	if _, err := s.answerOf(sites, d, &inprocess.Response{Data: append(fits, ' ')}); err == nil ||
		!strings.HasPrefix(fmt.Sprint(toolError(err).Meta["errors"]), "[{TOO_LARGE ") {
		t.Errorf("one byte more: %v", err)
	}
}

// TestInternalErrorsAreLogged checks that an error that the caller cannot read is logged with the
// tool's name, once: GraphQL logs its own errors.
func TestInternalErrorsAreLogged(t *testing.T) {
	s, log := newServer(t, func(w http.ResponseWriter, _ *http.Request) { fmt.Fprint(w, "<html>") })
	c := &inprocess.Call{API: s.API, HTTP: httptest.NewRequest(http.MethodPost, Path, nil)}
	for _, known := range []error{model.ErrForbidden, inprocess.Failed(errors.New("inside")).Errors} {
		s.logFault(t.Context(), "sites", known)
	}
	testkit.Equal(t, log.String(), "", "errors of callers are logged: %s", log)

	_, err := s.call(c, s.tool(t, "sites"), nil)
	s.logFault(t.Context(), "broken", err)
	if got := log.String(); !strings.Contains(got, `"tool":"broken"`) || !strings.Contains(got, "GraphQL's answer of 6 bytes") {
		t.Errorf("the log has %s", got)
	}
}
