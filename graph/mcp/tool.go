package mcp

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"regexp"
	"slices"
	"strings"

	"github.com/google/jsonschema-go/jsonschema"
	"github.com/modelcontextprotocol/go-sdk/jsonrpc"
	sdk "github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/tallygate/tallygate/db/model"
	"github.com/tallygate/tallygate/graph/auth"
	"github.com/tallygate/tallygate/graph/generated"
	"github.com/tallygate/tallygate/graph/limits"
)

// tool is what a tool consists of: arguments, the GraphQL document that they become, and a description.
type tool struct {
	name, title, description string

	arguments map[string]*jsonschema.Schema
	required  []string

	// document returns the GraphQL request for the arguments of a caller. reader is a reader of a shared link.
	document func(arguments json.RawMessage, reader bool) (*document, error)

	changes   bool // needs the permission CONFIGURE
	replaces  bool // can undo an earlier change
	repeats   bool // has no further effect when it is called again
	readers   bool // works for readers of shared links
	untrusted bool // its answer has texts of visitors
}

// decoded returns the document function of a tool with arguments of the type A.
func decoded[A any](build func(arguments A, reader bool) (*document, error)) func(json.RawMessage, bool) (*document, error) {
	return func(text json.RawMessage, reader bool) (*document, error) {
		var arguments A
		if err := json.Unmarshal(text, &arguments); err != nil {
			return nil, invalid("The arguments cannot be read: %v.", err)
		}
		return build(arguments, reader)
	}
}

// outputSchema is the schema of all answers. Their definitions describe the figures; the fields of the data
// are those of the GraphQL schema, which would be most of the list of tools.
var outputSchema = json.RawMessage(`{"type":"object"}`)

// isFor reports whether a tool is in the list of callers of a kind.
func (t *tool) isFor(kind callerKind) bool {
	return kind == configures || kind == reads && !t.changes || kind == readsLink && t.readers
}

// toolList is a list of tools that are encoded.
type toolList struct {
	sdk.ListToolsResult                 // what the SDK sets for each caller
	Tools               json.RawMessage `json:"tools"`
}

// listTools returns the tools that a caller can use.
func (s *server) listTools(caller auth.Caller, request *sdk.ListToolsRequest) (sdk.Result, error) {
	if request.Params != nil && request.Params.Cursor != "" {
		return nil, &jsonrpc.Error{Code: jsonrpc.CodeInvalidParams, Message: "The list of tools has one page."}
	}

	list := &toolList{Tools: s.lists[kindOf(caller)]}
	list.CacheScope = "private"
	return list, nil
}

// addTools adds all tools to the protocol, and encodes the lists of them.
func (s *server) addTools(to *sdk.Server) error {
	var lists [len(s.lists)][]*sdk.Tool
	for _, t := range s.tools() {
		input := &jsonschema.Schema{
			Type: "object", Properties: t.arguments, Required: t.required, AdditionalProperties: &jsonschema.Schema{Not: &jsonschema.Schema{}},
		}
		resolved, err := input.Resolve(nil)
		if err != nil {
			return fmt.Errorf("mcp: arguments of %s: %w", t.name, err)
		}
		encoded, err := json.Marshal(input)
		if err != nil {
			return fmt.Errorf("mcp: arguments of %s: %w", t.name, err)
		}

		no := false
		annotations := &sdk.ToolAnnotations{
			ReadOnlyHint: !t.changes, IdempotentHint: !t.changes || t.repeats, OpenWorldHint: &no, DestructiveHint: &t.replaces,
		}
		description := t.description
		if t.untrusted {
			description += " " + untrustedText
		}

		shown := &sdk.Tool{
			Name: t.name, Title: t.title, Description: description, Annotations: annotations,
			InputSchema: json.RawMessage(encoded), OutputSchema: outputSchema,
		}
		for kind := range lists {
			if t.isFor(callerKind(kind)) {
				lists[kind] = append(lists[kind], shown)
			}
		}
		to.AddTool(shown, func(ctx context.Context, request *sdk.CallToolRequest) (*sdk.CallToolResult, error) {
			answer, err := s.call(callOf(ctx), t, resolved, request.Params.Arguments)
			if err != nil {
				s.logFault(ctx, t.name, err)
				return toolError(err), nil
			}
			return answer.result()
		})
	}

	for kind, list := range lists {
		var err error
		if s.lists[kind], err = json.Marshal(list); err != nil {
			return fmt.Errorf("mcp: list of tools: %w", err)
		}
	}
	return nil
}

// logFault logs an internal error of a tool. GraphQL has logged its own errors, and the caller reads the others.
func (s *server) logFault(ctx context.Context, tool string, err error) {
	_, isGraphQL := errors.AsType[graphQLErrors](err)
	_, isKnown := errors.AsType[*model.Error](err)
	if !isGraphQL && !isKnown {
		s.Log.ErrorContext(ctx, "mcp: a tool failed", "tool", tool, "error", err)
	}
}

// call runs a tool: it checks the arguments, sends the document, and checks the answer.
func (s *server) call(c *call, t tool, schema *jsonschema.Resolved, arguments json.RawMessage) (*answer, error) {
	if len(arguments) == 0 || string(arguments) == "null" {
		arguments = json.RawMessage("{}")
	}
	if err := checkArguments(t, schema, arguments); err != nil {
		return nil, err
	}
	if c.isReader() && !t.readers {
		return nil, model.ErrForbidden
	}

	d, err := t.document(arguments, c.isReader())
	if err != nil {
		return nil, err
	}

	ctx := c.http.Context()
	if d.domain != "" {
		if err := c.lookUp(ctx, d); err != nil {
			return nil, err
		}
	}

	response := c.run(ctx, d)
	if response.fault != nil {
		return nil, response.fault
	}
	if len(response.Errors) > 0 {
		return nil, response.Errors
	}
	return s.answerOf(t, d, response)
}

// lookUp sets the id of the site that a mutation changes.
func (c *call) lookUp(ctx context.Context, d *document) error {
	found := c.run(ctx, &document{
		text: "query SiteId($domain: String!) {\n  site(domain: $domain) { id }\n}", variables: map[string]any{"domain": d.domain},
	})
	if found.fault != nil {
		return found.fault
	}
	if len(found.Errors) > 0 {
		return found.Errors
	}

	var data struct{ Site *struct{ ID string } }
	if err := found.decode(&data); err != nil {
		return err
	}
	if data.Site == nil {
		return errNoSite
	}
	d.variables["input"].(map[string]any)["siteId"] = data.Site.ID
	return nil
}

var errNoSite = &model.Error{Kind: model.NotFound, Code: "not_found",
	Message: "No such site exists, or the caller does not reach it. The tool sites lists the sites."}

// maxMessage is the length of an error message, in bytes. Some repeat an argument.
const maxMessage = 2000

// step is a part of the path in an error of the JSON schema package.
var step = regexp.MustCompile(`validating (\S+): `)

// number is a whole number as the JSON schema package writes it: 7/1 or 7.000000.
var number = regexp.MustCompile(`\b(\d+)(?:/1|\.0{6})(?: |$)`)

// checkArguments checks the arguments of a call with the schema of its tool.
func checkArguments(t tool, schema *jsonschema.Resolved, arguments json.RawMessage) error {
	var value any
	if err := json.Unmarshal(arguments, &value); err != nil {
		return invalid("The arguments cannot be read: %v.", err)
	}
	object, ok := value.(map[string]any)
	if !ok {
		return invalid("The arguments are not an object.")
	}

	known := slices.Sorted(maps.Keys(t.arguments))
	for name := range object {
		if !slices.Contains(known, name) {
			return invalid("%s has no argument %q. It has: %s.", t.name, name, strings.Join(known, ", "))
		}
	}

	err := schema.Validate(object)
	if err == nil {
		return nil
	}

	// The path of the innermost schema names the argument, such as /properties/metrics/items.
	message, path := err.Error(), ""
	if steps := step.FindAllStringSubmatch(message, -1); len(steps) > 0 {
		path = steps[len(steps)-1][1]
	}
	message = strings.TrimSpace(number.ReplaceAllString(step.ReplaceAllString(message, ""), "$1 "))
	path = strings.NewReplacer("/properties/", ".", "/items", "", "root", "").Replace(path)
	if path = strings.TrimPrefix(path, "."); path != "" {
		message = path + ": " + message
	}
	return invalid("%s", message)
}

// invalid returns an error of an argument.
func invalid(format string, arguments ...any) error {
	return &model.Error{Kind: model.Invalid, Code: "invalid_argument", Message: shortened(fmt.Sprintf(format, arguments...))}
}

// shortened returns the message of an error within maxMessage.
func shortened(message string) string {
	if len(message) <= maxMessage {
		return message
	}
	return strings.ToValidUTF8(message[:maxMessage], "") + "…"
}

// graphQLErrors are the errors of a GraphQL request.
type graphQLErrors []graphQLError

// Error implements error.
func (errs graphQLErrors) Error() string { return errs[0].Message }

// toolError returns the result of a failed call: for each error its code and message, as text and, for
// programs, in _meta.
func toolError(err error) *sdk.CallToolResult {
	type shown struct {
		Code       string `json:"code"`
		Message    string `json:"message"`
		RetryAfter int64  `json:"retryAfter,omitempty"`
		Path       []any  `json:"path,omitempty"` // of the field in GraphQL's data
	}

	var list []shown
	if errs, ok := errors.AsType[graphQLErrors](err); ok {
		for _, e := range errs {
			list = append(list, shown{e.Extensions.Code, e.Message, e.Extensions.RetryAfter, e.Path})
		}
	} else if e, ok := errors.AsType[*model.Error](err); ok {
		list = []shown{{strings.ToUpper(e.Code), e.Message, limits.Seconds(e.RetryAfter), nil}}
	} else {
		list = []shown{{string(generated.ErrorCodeInternal), "Internal error.", 0, nil}}
	}

	var lines []string
	for _, e := range list {
		line := e.Code + ": " + e.Message
		if e.RetryAfter > 0 {
			line += fmt.Sprintf(" Retry after %d seconds.", e.RetryAfter)
		}
		lines = append(lines, line)
	}

	return &sdk.CallToolResult{
		IsError: true, Meta: sdk.Meta{"errors": list}, Content: []sdk.Content{&sdk.TextContent{Text: strings.Join(lines, "\n")}},
	}
}
