// Package openapitest checks the answers of the data plane against its OpenAPI document. The test
// servers of the data plane wrap their handlers with Handler, and tests of the whole program send
// their requests through a Transport.
package openapitest

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"math"
	"mime"
	"net/http"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"

	"github.com/getkin/kin-openapi/openapi3"
	"github.com/getkin/kin-openapi/openapi3filter"
	"github.com/getkin/kin-openapi/routers"
	"github.com/santhosh-tekuri/jsonschema/v6"

	"github.com/tallygate/tallygate/dataplane"
)

// document returns the parsed and validated document.
var document = sync.OnceValue(func() *openapi3.T {
	doc, err := openapi3.NewLoader().LoadFromData(dataplane.OpenAPI)
	if err != nil {
		panic(fmt.Sprintf("openapitest: dataplane/openapi.json: %v", err))
	}
	if err := doc.Validate(context.Background(), openapi3.IsOpenAPI31OrLater()); err != nil {
		panic(fmt.Sprintf("openapitest: dataplane/openapi.json: %v", err))
	}
	return doc
})

// raw is the document as JSON, for package jsonschema.
var raw = sync.OnceValue(func() any {
	doc, err := jsonschema.UnmarshalJSON(bytes.NewReader(dataplane.OpenAPI))
	if err != nil {
		panic(fmt.Sprintf("openapitest: dataplane/openapi.json: %v", err))
	}
	return doc
})

// schemas are the compiled schemas of the document by their position.
var schemas sync.Map

// schemaAt returns the schema at a position of the document. References on the way are followed.
func schemaAt(keys ...string) *jsonschema.Schema {
	position := ""
	at := raw()
	for i, key := range keys {
		at = at.(map[string]any)[key]
		position += "/" + strings.NewReplacer("~", "~0", "/", "~1", "{", "%7B", "}", "%7D").Replace(key)

		// A schema's own reference is resolved by its compiler.
		if ref, ok := at.(map[string]any)["$ref"].(string); ok && key != "schema" {
			return schemaAt(append(strings.Split(strings.TrimPrefix(ref, "#/"), "/"), keys[i+1:]...)...)
		}
	}
	if known, ok := schemas.Load(position); ok {
		return known.(*jsonschema.Schema)
	}

	const name = "openapi.json"
	compiler := jsonschema.NewCompiler()
	compiler.DefaultDraft(jsonschema.Draft2020)
	compiler.AssertFormat()
	if err := compiler.AddResource(name, raw()); err != nil {
		panic(fmt.Sprintf("openapitest: %v", err))
	}

	schema := compiler.MustCompile(name + "#" + position)
	schemas.Store(position, schema)
	return schema
}

// Path returns the path of the document that a request's path matches. It returns "" if there is none.
func Path(requested string) string {
	if document().Paths.Value(requested) != nil {
		return requested
	}
	for path, pattern := range templates() {
		if pattern.MatchString(requested) {
			return path
		}
	}
	return ""
}

// Paths returns the paths of the document, each with the methods that it lists.
func Paths() map[string][]string {
	paths := map[string][]string{}
	for path, item := range document().Paths.Map() {
		for method := range item.Operations() {
			paths[path] = append(paths[path], method)
		}
	}
	return paths
}

// OtherMethods returns the status with which a path of the document answers methods that it does not list.
func OtherMethods(path string) int { return otherMethods(document().Paths.Value(path)) }

// parameter is a parameter in a path of the document.
var parameter = regexp.MustCompile(`\\\{[a-z]+\\\}`)

// templates returns the paths with parameters, each with a pattern of the paths that match it.
var templates = sync.OnceValue(func() map[string]*regexp.Regexp {
	patterns := map[string]*regexp.Regexp{}
	for path := range document().Paths.Map() {
		if strings.Contains(path, "{") {
			pattern := parameter.ReplaceAllString(regexp.QuoteMeta(path), `([^/.]+)`)
			patterns[path] = regexp.MustCompile("^" + pattern + "$")
		}
	}
	return patterns
})

// exchange is a request with its answer.
type exchange struct {
	request *http.Request
	sent    []byte // body of the request, as far as it was read
	hasSent bool   // sent is known

	status int
	header http.Header
	body   []byte
}

// check returns how the exchange differs from the document, or nil.
func (x *exchange) check() error {
	err := x.compare()
	if err == nil {
		return nil
	}
	return fmt.Errorf("dataplane/openapi.json does not describe the answer to %s %s: %w\nrequest:\n%.2000s\nanswer %d, %s:\n%.2000s",
		x.request.Method, x.request.URL.Path, err, x.sent, x.status, x.header.Get("Content-Type"), x.body)
}

func (x *exchange) compare() error {
	path := Path(x.request.URL.Path)
	if path == "" {
		if x.status != http.StatusNotFound && x.status != http.StatusMethodNotAllowed {
			return fmt.Errorf("unknown path with status %d", x.status)
		}
		return nil
	}

	item := document().Paths.Value(path)
	if item.GetOperation(x.request.Method) != nil {
		if err := x.compareAnswer(path, x.request.Method, item); err != nil {
			return err
		}
		return x.compareRequest(path, item)
	}

	// The path's main operation lists the answer to other methods.
	if other := otherMethods(item); x.status != other {
		return fmt.Errorf("a method that is not listed has status %d, want %d", x.status, other)
	}
	if item.Post != nil {
		return x.compareAnswer(path, http.MethodPost, item)
	}
	return x.compareAnswer(path, http.MethodGet, item)
}

// otherMethods returns the status of the answer to methods that a path does not list.
func otherMethods(item *openapi3.PathItem) int {
	if text, ok := item.Extensions["x-other-methods"].(string); ok {
		status, _ := strconv.Atoi(text)
		return status
	}
	return http.StatusMethodNotAllowed
}

// compareAnswer compares the answer with those that an operation lists.
func (x *exchange) compareAnswer(path, method string, item *openapi3.PathItem) error {
	listed := item.GetOperation(method).Responses.Status(x.status)
	if listed == nil {
		return fmt.Errorf("status %d is not listed", x.status)
	}
	if err := x.compareHeader(path, method, item, listed.Value); err != nil || x.request.Method == http.MethodHead {
		return err
	}

	// ValidateResponse accepts a body where the document has none.
	if len(listed.Value.Content) == 0 {
		if len(x.body) > 0 {
			return fmt.Errorf("an answer with status %d has no body in the document", x.status)
		}
		return nil
	}

	kind, _, _ := mime.ParseMediaType(x.header.Get("Content-Type"))
	media := listed.Value.Content[kind]
	switch {
	case media == nil:
		return fmt.Errorf("an answer of type %q is not listed for status %d", kind, x.status)
	case media.Schema == nil:
		return nil
	}

	schema := schemaAt("paths", path, strings.ToLower(method), "responses", strconv.Itoa(x.status), "content", kind, "schema")
	if kind != "application/json" {
		return schema.Validate(string(x.body))
	}
	value, err := jsonschema.UnmarshalJSON(bytes.NewReader(x.body))
	if err != nil {
		return err
	}
	return schema.Validate(value)
}

// headers are the results of compareHeader. ValidateResponse compiles each schema at each call, which
// takes milliseconds.
var headers sync.Map

// compareHeader compares the header of the answer with the document.
func (x *exchange) compareHeader(path, method string, item *openapi3.PathItem, listed *openapi3.Response) error {
	key := fmt.Sprint(method, path, x.status)
	for _, name := range slices.Sorted(maps.Keys(listed.Headers)) {
		key += fmt.Sprintf("\n%s: %q", name, x.header.Values(name))
	}
	if known, ok := headers.Load(key); ok {
		return known.(result).err
	}

	input := x.input(path, method, item)
	if method == http.MethodHead {
		// ValidateResponse accepts each answer to HEAD.
		input.Request = x.request.Clone(x.request.Context())
		input.Request.Method = http.MethodGet
	}
	err := openapi3filter.ValidateResponse(context.Background(), &openapi3filter.ResponseValidationInput{
		RequestValidationInput: input, Status: x.status, Header: x.header,
		Options: &openapi3filter.Options{IncludeResponseStatus: true, ExcludeResponseBody: true},
	})
	headers.Store(key, result{err})
	return err
}

// result is the result of a comparison.
type result struct{ err error }

// input returns the request as package openapi3filter takes it.
func (x *exchange) input(path, method string, item *openapi3.PathItem) *openapi3filter.RequestValidationInput {
	return &openapi3filter.RequestValidationInput{
		Request:    x.request,
		PathParams: pathParameters(path, x.request.URL.Path),
		Options: &openapi3filter.Options{
			ExcludeRequestBody: true, SkipSettingDefaults: true,
			AuthenticationFunc: openapi3filter.NoopAuthenticationFunc,
		},
		Route: &routers.Route{
			Spec: document(), Path: path, PathItem: item, Method: method, Operation: item.GetOperation(method),
		},
	}
}

// pathParameters returns the values of a path's parameters in a request's path.
func pathParameters(path, requested string) map[string]string {
	pattern := templates()[path]
	if pattern == nil {
		return nil
	}

	values := map[string]string{}
	for i, name := range regexp.MustCompile(`\{([a-z]+)\}`).FindAllStringSubmatch(path, -1) {
		values[name[1]] = pattern.FindStringSubmatch(requested)[i+1]
	}
	return values
}

// compareRequest compares a request that the data plane has accepted with the document. The document
// may be stricter than the data plane, and the other way round, about requests that it refuses.
func (x *exchange) compareRequest(path string, item *openapi3.PathItem) error {
	if !x.isAccepted() {
		return nil
	}
	if err := x.compareParameters(path, item); err != nil {
		return err
	}

	body := item.GetOperation(x.request.Method).RequestBody
	if body == nil || !x.hasSent || len(x.sent) == 0 && !body.Value.Required {
		return nil
	}
	return x.compareBody(path, body.Value.Content)
}

// isAccepted reports whether the answer is a success. A path that answers every call with status 200
// says in the body whether it is one.
func (x *exchange) isAccepted() bool {
	return x.status/100 == 2 && !bytes.HasPrefix(x.body, []byte(`{"success":false`))
}

// compareParameters compares the parameters of the request with the document. Only those in a path have
// limits; the others are any text.
func (x *exchange) compareParameters(path string, item *openapi3.PathItem) error {
	if len(item.Parameters) == 0 {
		return nil
	}
	return openapi3filter.ValidateRequest(context.Background(), x.input(path, x.request.Method, item))
}

// compareBody compares the body of the request with the document. The data plane reads a JSON object
// whatever its content type.
func (x *exchange) compareBody(path string, content openapi3.Content) error {
	// A path that takes forms reads everything else as one. The fields of forms are any text.
	isObject := bytes.HasPrefix(bytes.TrimLeft(x.sent, " \t\r\n"), []byte("{"))
	if content["application/x-www-form-urlencoded"] != nil && !isObject {
		return nil
	}

	const asJSON = "application/json"
	media := content[asJSON]
	if media == nil {
		return errors.New("the document has no JSON body for this path")
	}

	value, err := jsonschema.UnmarshalJSON(bytes.NewReader(x.sent))
	if err != nil {
		return err
	}
	value = withoutWrongTypes(media.Schema.Value, plain(value))
	return schemaAt("paths", path, strings.ToLower(x.request.Method), "requestBody", "content", asJSON, "schema").Validate(value)
}

// plain returns a value with numbers as float64. A number beyond its range, which json.Unmarshal would
// refuse, becomes the largest one.
func plain(value any) any {
	switch v := value.(type) {
	case json.Number:
		f, _ := strconv.ParseFloat(v.String(), 64)
		return max(-math.MaxFloat64, min(f, math.MaxFloat64))
	case []any:
		for i := range v {
			v[i] = plain(v[i])
		}
	case map[string]any:
		for key := range v {
			v[key] = plain(v[key])
		}
	}
	return value
}

// withoutWrongTypes removes the members of an object that have another type than the schema's.
func withoutWrongTypes(schema *openapi3.Schema, value any) any {
	object, ok := value.(map[string]any)
	if !ok {
		return value
	}

	for name, property := range schema.Properties {
		member, ok := object[name]
		if !ok {
			continue
		}
		if types := property.Value.Type; types != nil && !slices.ContainsFunc(types.Slice(), func(t string) bool { return isOf(member, t) }) {
			delete(object, name)
			continue
		}
		object[name] = withoutWrongTypes(property.Value, member)
	}
	return object
}

// isOf reports whether a value has a type of JSON Schema.
func isOf(value any, kind string) bool {
	switch v := value.(type) {
	case nil:
		return kind == "null"
	case string:
		return kind == "string"
	case bool:
		return kind == "boolean"
	case float64:
		return kind == "number" || kind == "integer" && v == float64(int64(v))
	case []any:
		return kind == "array"
	}
	return kind == "object"
}

// recorder passes an answer on and keeps a copy.
type recorder struct {
	http.ResponseWriter
	status int
	body   bytes.Buffer
}

// WriteHeader implements http.ResponseWriter.
func (w *recorder) WriteHeader(status int) {
	if w.status == 0 {
		w.status = status
	}
	w.ResponseWriter.WriteHeader(status)
}

// Write implements http.ResponseWriter.
func (w *recorder) Write(b []byte) (int, error) {
	if w.status == 0 {
		w.status = http.StatusOK
	}
	w.body.Write(b)
	return w.ResponseWriter.Write(b)
}

// Unwrap returns the writer for http.ResponseController.
func (w *recorder) Unwrap() http.ResponseWriter { return w.ResponseWriter }

// reporter is the part of testing.TB that Handler needs.
type reporter interface {
	Errorf(format string, args ...any)
}

// Handler returns a data plane's handler that fails the test for an answer that differs from the document.
func Handler(tb reporter, next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		var sent bytes.Buffer
		read := r.WithContext(r.Context())
		if r.Body != nil {
			read.Body = struct {
				io.Reader
				io.Closer
			}{io.TeeReader(r.Body, &sent), r.Body}
		}

		answer := &recorder{ResponseWriter: w}
		next.ServeHTTP(answer, read)
		if answer.status == 0 {
			answer.status = http.StatusOK
		}
		r.Pattern = read.Pattern

		x := exchange{r, sent.Bytes(), true, answer.status, w.Header(), answer.body.Bytes()}
		err := x.check()
		if f, ok := tb.(*testing.F); ok && err != nil {
			// Methods of F must not be called within a fuzz target.
			panic(fmt.Sprintf("%s: %v", f.Name(), err))
		}
		if err != nil {
			tb.Errorf("%v", err)
		}
	})
}

// Transport is an HTTP transport that compares answers with the document. It ignores requests for
// paths that the document does not have: they may be for another server.
type Transport struct {
	next http.RoundTripper

	mu      sync.Mutex
	errs    []error
	ignored map[string]bool // see Ignore
}

// NewTransport returns a Transport over another one.
func NewTransport(next http.RoundTripper) *Transport { return &Transport{next: next} }

// maxErrors is how many differences a Transport keeps.
const maxErrors = 20

// Errors returns the first differences that were found.
func (t *Transport) Errors() []error {
	t.mu.Lock()
	defer t.mu.Unlock()
	return slices.Clone(t.errs)
}

// Ignore leaves out the answers of a host, such as a control listener, which has pages of its own under
// every path.
func (t *Transport) Ignore(host string) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.ignored == nil {
		t.ignored = make(map[string]bool)
	}
	t.ignored[host] = true
}

func (t *Transport) ignores(host string) bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.ignored[host]
}

// RoundTrip implements http.RoundTripper.
func (t *Transport) RoundTrip(r *http.Request) (*http.Response, error) {
	response, err := t.next.RoundTrip(r)
	if err != nil || Path(r.URL.Path) == "" || t.ignores(r.URL.Host) {
		return response, err
	}

	body, err := io.ReadAll(response.Body)
	if err != nil {
		// The connection broke. The caller gets the same error when it reads.
		response.Body = struct {
			io.Reader
			io.Closer
		}{io.MultiReader(bytes.NewReader(body), failing{err}), response.Body}
		return response, nil
	}
	_ = response.Body.Close()
	response.Body = io.NopCloser(bytes.NewReader(body))

	x := exchange{request: r, status: response.StatusCode, header: response.Header, body: body}
	if r.Body == nil || r.GetBody != nil {
		x.sent, x.hasSent = sentBody(r), true
	}
	if err := x.check(); err != nil {
		t.add(err)
	}
	return response, nil
}

func (t *Transport) add(err error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if len(t.errs) < maxErrors {
		t.errs = append(t.errs, err)
	}
}

// Webhook fails the test for the body of a webhook that differs from the document.
func Webhook(tb reporter, name, body string) {
	value, err := jsonschema.UnmarshalJSON(strings.NewReader(body))
	if err == nil {
		err = schemaAt("webhooks", name, "post", "requestBody", "content", "application/json", "schema").Validate(value)
	}
	if err != nil {
		tb.Errorf("dataplane/openapi.json does not describe the webhook %s: %v\n%s", name, err, body)
	}
}

// sentBody returns a copy of a request's body.
func sentBody(r *http.Request) []byte {
	if r.Body == nil {
		return nil
	}
	body, err := r.GetBody()
	if err != nil {
		return nil
	}
	defer body.Close()
	text, _ := io.ReadAll(body)
	return text
}

// failing is a reader that returns an error.
type failing struct{ err error }

// Read implements io.Reader.
func (f failing) Read([]byte) (int, error) { return 0, f.err }
