package openapitest

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"math"
	"mime"
	"net/http"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"sync"

	"github.com/getkin/kin-openapi/openapi3"
	"github.com/getkin/kin-openapi/openapi3filter"
	"github.com/getkin/kin-openapi/routers"
	"github.com/santhosh-tekuri/jsonschema/v6"
)

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

// headers are the results of compareHeader. ValidateResponse compiles each schema at each call,
// which takes milliseconds.
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

// compareRequest compares a request that the data plane has accepted with the document. The
// document may be stricter than the data plane, and the other way round, about requests that it
// refuses.
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

// isAccepted reports whether the answer is a success. A path that answers every call with status
// 200 says in the body whether it is one.
func (x *exchange) isAccepted() bool {
	return x.status/100 == 2 && !bytes.HasPrefix(x.body, []byte(`{"success":false`))
}

// compareParameters compares the parameters of the request with the document. Only those in a path
// have limits; the others are any text.
func (x *exchange) compareParameters(path string, item *openapi3.PathItem) error {
	if len(item.Parameters) == 0 {
		return nil
	}
	return openapi3filter.ValidateRequest(context.Background(), x.input(path, x.request.Method, item))
}

// compareBody compares the body of the request with the document. The data plane reads a JSON
// object whatever its content type.
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

// plain returns a value with numbers as float64. A number beyond its range, which json.Unmarshal
// would refuse, becomes the largest one.
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
