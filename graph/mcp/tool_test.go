package mcp

import (
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"reflect"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/jsonschema-go/jsonschema"

	"github.com/tallygate/tallygate/db/model"
	"github.com/tallygate/tallygate/graph/auth"
	"github.com/tallygate/tallygate/graph/generated"
	"github.com/tallygate/tallygate/graph/limits"
	"github.com/tallygate/tallygate/tools/testkit"
)

// newServer returns a server before a GraphQL handler of the test.
func newServer(t testing.TB, graphQL http.HandlerFunc) (*server, *testkit.Log) {
	t.Helper()
	log := &testkit.Log{}
	schema := generated.NewExecutableSchema(generated.Config{}).Schema()
	handler, err := New(Options{
		GraphQL: graphQL, Schema: schema, Auth: &auth.Auth{}, Limits: limits.New(0), Origin: "https://app.example.com", Timeout: time.Minute,
		Now: time.Now, Log: slog.New(slog.NewJSONHandler(log, nil)),
		ClientAddr: func(*http.Request) netip.Addr { return netip.Addr{} }, IsShared: func(*http.Request) bool { return false },
	})
	if err != nil {
		t.Fatal(err)
	}
	return handler.(*server), log
}

// TestArgumentsAreRead checks that each argument of each tool is a field of the type that it is decoded into, so that
// none is ignored.
func TestArgumentsAreRead(t *testing.T) {
	s, _ := newServer(t, nil)
	report, site := reflect.TypeFor[reportArguments](), reflect.TypeFor[siteArguments]()
	reads := s.reportTools()
	for i, tool := range s.tools() {
		typ := site
		if i < len(reads) {
			typ = report
		}
		for name, schema := range tool.arguments {
			field, ok := typ.FieldByNameFunc(func(field string) bool { return strings.EqualFold(field, name) })
			if !ok {
				t.Errorf("%s: the argument %s is not read", tool.name, name)
				continue
			}
			kinds := map[string]reflect.Kind{"string": reflect.String, "integer": reflect.Int, "array": reflect.Slice, "boolean": reflect.Pointer}
			if field.Type.Kind() != kinds[schema.Type] || schema.Description == "" {
				t.Errorf("%s: the argument %s is a %s, %q", tool.name, name, field.Type, schema.Description)
			}
		}
	}
}

// randomArguments returns arguments that match their schemas, but for the number of items.
func randomArguments(random *rand.Rand, arguments map[string]*jsonschema.Schema) map[string]any {
	chosen := map[string]any{}
	for name, schema := range arguments {
		if random.IntN(3) > 0 {
			chosen[name] = randomValue(random, schema)
		}
	}
	return chosen
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

// TestDocumentsMatchTheSchema builds documents from random arguments. Each that is built parses, and consists of the
// tool's own words.
func TestDocumentsMatchTheSchema(t *testing.T) {
	s, _ := newServer(t, nil)
	random := rand.New(rand.NewPCG(1, 1))
	built := make(map[string]int)

	for _, tool := range s.tools() {
		for range 500 {
			text, err := json.Marshal(randomArguments(random, tool.arguments))
			if err != nil {
				t.Fatal(err)
			}
			d, err := tool.document(text, tool.readers && random.IntN(2) == 0)
			if err != nil {
				if e, ok := errors.AsType[*model.Error](err); !ok || e.Code != "invalid_argument" {
					t.Errorf("%s %s: %v", tool.name, text, err)
				}
				continue
			}
			built[tool.name]++

			operation, err := s.operation(d.text)
			if err != nil {
				t.Fatalf("%s %s: %v in\n%s", tool.name, text, err, d.text)
			}
			if !word.MatchString(d.text) {
				t.Fatalf("%s %s: an argument is part of the document\n%s", tool.name, text, d.text)
			}
			for _, variable := range operation.VariableDefinitions {
				if _, ok := d.variables[variable.Variable]; !ok {
					t.Errorf("%s %s: %s has no value", tool.name, text, variable.Variable)
				}
			}
		}
		if built[tool.name] == 0 {
			t.Errorf("%s: no document was built", tool.name)
		}
	}
}

// FuzzArguments calls tools with any arguments: the answer is a result or an error with a code, and GraphQL gets only
// documents of the tools.
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
	tools, resolved := s.tools(), map[string]*jsonschema.Resolved{}
	for _, tool := range tools {
		schema := &jsonschema.Schema{Type: "object", Properties: tool.arguments, Required: tool.required}
		var err error
		if resolved[tool.name], err = schema.Resolve(nil); err != nil {
			f.Fatal(err)
		}
	}

	f.Fuzz(func(t *testing.T, name, arguments string) {
		i := slices.IndexFunc(tools, func(tool tool) bool { return tool.name == name })
		if i < 0 {
			return
		}
		sent = ""
		c := &call{server: s, http: httptest.NewRequest(http.MethodPost, Path, nil), authorization: "Bearer tga_x"}
		_, err := s.call(c, tools[i], resolved[name], json.RawMessage(arguments))
		if err != nil {
			text := toolError(err).Content
			if shown := fmt.Sprint(text[0]); strings.Contains(shown, "INTERNAL") || len(shown) > 3*maxMessage {
				t.Errorf("%s %s: %s", name, arguments, shown)
			}
		}
		if !word.MatchString(sent) {
			t.Errorf("%s %s: GraphQL got %s", name, arguments, sent)
		}
		if log.String() != "" {
			t.Errorf("logged %s", log)
		}
	})
}

// TestGraphQLRequests checks what of a client's request reaches GraphQL, and that a panic or a broken answer there
// becomes an INTERNAL error.
func TestGraphQLRequests(t *testing.T) {
	var got *http.Request
	answer := func(w http.ResponseWriter) { fmt.Fprint(w, `{"data":{"sites":{"totalCount":0,"nodes":[]}}}`) }
	s, log := newServer(t, func(w http.ResponseWriter, r *http.Request) {
		got = r
		answer(w)
	})

	r := httptest.NewRequest(http.MethodPost, Path, strings.NewReader("{}"))
	for name, value := range map[string]string{
		"Authorization": "Bearer tgl_link", "Cookie": "session=1", "Origin": "https://app.example.com", "Accept-Encoding": "gzip",
		"X-Forwarded-For": "192.0.2.9", "Accept-Language": "de", PasswordHeader: "secret", "Transfer-Encoding": "chunked",
	} {
		r.Header.Set(name, value)
	}
	c := &call{server: s, http: r, authorization: "Bearer tgv_viewer"}
	d := &document{text: "query Sites { sites { totalCount } }", variables: map[string]any{}}

	if response := c.run(t.Context(), d); len(response.Errors) > 0 {
		t.Errorf("got %+v", response)
	}
	want := http.Header{"Authorization": {"Bearer tgv_viewer"}, "Content-Type": {"application/json"}, "Accept": {"application/json"},
		"X-Forwarded-For": {"192.0.2.9"}, "Accept-Language": {"de"}}
	if !reflect.DeepEqual(got.Header, want) || got.Method != http.MethodPost || got.URL.Path != "/graphql" {
		t.Errorf("GraphQL got %s %s %v, want %v", got.Method, got.URL, got.Header, want)
	}
	if r.Header.Get("Cookie") == "" || r.URL.Path != Path {
		t.Error("the client's request was changed")
	}

	for name, broken := range map[string]func(http.ResponseWriter){
		"panic": func(http.ResponseWriter) { panic("bug") }, "HTML": func(w http.ResponseWriter) { fmt.Fprint(w, "<html>") }, "nothing": func(http.ResponseWriter) {},
	} {
		answer = broken
		response := c.run(t.Context(), d)
		if len(response.Errors) != 1 || response.Errors[0].Extensions.Code != "INTERNAL" {
			t.Errorf("%s: %+v", name, response)
		}
	}
	if !strings.Contains(log.String(), `"panic":"bug"`) {
		t.Errorf("the panic is not logged: %s", log)
	}
}

// TestLargeAnswersAreRefused checks the bound of an answer's data.
func TestLargeAnswersAreRefused(t *testing.T) {
	s, _ := newServer(t, nil)
	tools := s.tools()
	d := &document{text: "query Sites { sites { totalCount } }"}
	fits := json.RawMessage(`{"sites":{"x":"` + strings.Repeat("x", maxData-len(`{"sites":{"x":""}}`)) + `"}}`)
	if _, err := s.answerOf(tools[0], d, &response{Data: fits}); err != nil {
		t.Error(err)
	}
	if _, err := s.answerOf(tools[0], d, &response{Data: append(fits, ' ')}); err == nil || !strings.HasPrefix(fmt.Sprint(toolError(err).Meta["errors"]), "[{TOO_LARGE ") {
		t.Errorf("one byte more: %v", err)
	}
}

// TestKeptLinks checks that a viewer token is kept until it expires, for the token and the password of its link alone.
func TestKeptLinks(t *testing.T) {
	kept, now := newLinks(), time.Date(2026, 11, 20, 0, 0, 0, 0, time.UTC)
	kept.add([32]byte{1}, viewer{"tgv_1", now.Add(time.Hour)})
	for _, test := range []struct {
		key  byte
		at   time.Duration
		want string
	}{{1, 0, "tgv_1"}, {1, 58 * time.Minute, "tgv_1"}, {1, 59 * time.Minute, ""}, {1, 2 * time.Hour, ""}, {2, 0, ""}} {
		if got := kept.get([32]byte{test.key}, now.Add(test.at)); got != test.want {
			t.Errorf("key %d after %v: %q, want %q", test.key, test.at, got, test.want)
		}
	}
	for i := range 2 * maxLinks {
		kept.add([32]byte{byte(i), byte(i >> 8), 1}, viewer{"x", now.Add(time.Hour)})
	}
	if n := kept.opened.Len(); n != maxLinks {
		t.Errorf("%d links are kept, want %d", n, maxLinks)
	}
}

// TestInternalErrorsAreLogged checks that an error that the caller cannot read is logged with the tool's name, once: GraphQL
// logs its own errors.
func TestInternalErrorsAreLogged(t *testing.T) {
	s, log := newServer(t, func(w http.ResponseWriter, _ *http.Request) { fmt.Fprint(w, "<html>") })
	c := &call{server: s, http: httptest.NewRequest(http.MethodPost, Path, nil)}
	for _, known := range []error{model.ErrForbidden, failed(errors.New("inside")).Errors} {
		s.logFault(t.Context(), "sites", known)
	}
	if log.String() != "" {
		t.Errorf("errors of callers are logged: %s", log)
	}

	_, err := s.call(c, tool{
		name: "broken", document: func(json.RawMessage, bool) (*document, error) {
			return &document{text: "{ sites { totalCount } }"}, nil
		},
	}, resolve(t, &jsonschema.Schema{Type: "object"}), nil)
	s.logFault(t.Context(), "broken", err)
	if got := log.String(); !strings.Contains(got, `"tool":"broken"`) || !strings.Contains(got, "GraphQL's answer of 6 bytes") {
		t.Errorf("the log has %s", got)
	}
}

func resolve(t *testing.T, schema *jsonschema.Schema) *jsonschema.Resolved {
	t.Helper()
	resolved, err := schema.Resolve(nil)
	if err != nil {
		t.Fatal(err)
	}
	return resolved
}
