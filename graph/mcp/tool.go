package mcp

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strings"

	"github.com/modelcontextprotocol/go-sdk/jsonrpc"
	sdk "github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/tallygate/tallygate/db/model"
	"github.com/tallygate/tallygate/graph/auth"
	"github.com/tallygate/tallygate/graph/generated"
	"github.com/tallygate/tallygate/graph/inprocess"
	"github.com/tallygate/tallygate/graph/limits"
)

// outputSchema is the schema of all answers. Their definitions describe the figures; the fields of
// the data are those of the GraphQL schema, which would be most of the list of tools.
var outputSchema = json.RawMessage(`{"type":"object"}`)

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
	tools, err := loadTools(s.Schema)
	if err != nil {
		return fmt.Errorf("mcp: %w", err)
	}
	s.tools = tools

	var lists [len(s.lists)][]*sdk.Tool
	for _, t := range tools {
		shown := t.shown()
		for kind := range lists {
			if t.isFor(callerKind(kind)) {
				lists[kind] = append(lists[kind], shown)
			}
		}
		to.AddTool(shown, func(ctx context.Context, request *sdk.CallToolRequest) (*sdk.CallToolResult, error) {
			answer, err := s.call(callOf(ctx), t, request.Params.Arguments)
			if err != nil {
				s.logFault(ctx, shown.Name, err)
				return toolError(err), nil
			}
			return answer.result()
		})
	}

	for kind, list := range lists {
		if s.lists[kind], err = json.Marshal(list); err != nil {
			return fmt.Errorf("mcp: list of tools: %w", err)
		}
	}
	return nil
}

// shown returns a tool as the list of tools has it.
func (t *tool) shown() *sdk.Tool {
	no := false
	annotations := &sdk.ToolAnnotations{
		ReadOnlyHint: !t.changes(), IdempotentHint: !t.changes() || t.Repeats, OpenWorldHint: &no, DestructiveHint: &t.Replaces,
	}
	description := strings.ReplaceAll(t.operation.Description, "\n", " ")
	if t.Untrusted {
		description += " " + untrustedText
	}
	return &sdk.Tool{
		Name: t.operation.Name, Title: t.Title, Description: description, Annotations: annotations,
		InputSchema: t.input.Schema(), OutputSchema: outputSchema,
	}
}

// logFault logs an internal error of a tool. GraphQL has logged its own errors, and the caller
// reads the others.
func (s *server) logFault(ctx context.Context, tool string, err error) {
	_, isGraphQL := errors.AsType[inprocess.Errors](err)
	_, isKnown := errors.AsType[*model.Error](err)
	if !isGraphQL && !isKnown {
		s.API.Log.ErrorContext(ctx, "mcp: a tool failed", "tool", tool, "error", err)
	}
}

// call runs a tool: it checks the arguments, sends the document, and checks the answer.
func (s *server) call(c *inprocess.Call, t *tool, text json.RawMessage) (*answer, error) {
	arguments, err := t.arguments(text)
	if err != nil {
		return nil, err
	}
	if c.Reads() && !t.readers() {
		return nil, model.ErrForbidden
	}

	// Mutations know sites by their ids alone.
	ctx := c.HTTP.Context()
	if site, _ := arguments["site"].(string); t.changes() && isDomain(site) {
		if arguments["site"], err = lookUp(ctx, c, site); err != nil {
			return nil, err
		}
	}

	d, err := t.compose(arguments, c.Reads())
	if err != nil {
		return nil, err
	}
	response := c.Run(ctx, d.text, d.variables)
	if err := response.Err(); err != nil {
		return nil, err
	}
	return s.answerOf(t, d, response)
}

// lookUp returns the id of a site.
func lookUp(ctx context.Context, c *inprocess.Call, domain string) (id string, err error) {
	found := c.Run(ctx, "query SiteId($domain: String!) {\n  site(domain: $domain) { id }\n}", map[string]any{"domain": domain})
	if err := found.Err(); err != nil {
		return "", err
	}

	var data struct{ Site *struct{ ID string } }
	if err := found.Decode(&data); err != nil {
		return "", err
	}
	if data.Site == nil {
		return "", errNoSite
	}
	return data.Site.ID, nil
}

var errNoSite = &model.Error{Kind: model.NotFound, Code: "not_found",
	Message: "No such site exists, or the caller does not reach it. The tool sites lists the sites."}

// toolError returns the result of a failed call: for each error its code and message, as text and,
// for programs, in _meta.
func toolError(err error) *sdk.CallToolResult {
	type shown struct {
		Code       string `json:"code"`
		Message    string `json:"message"`
		RetryAfter int64  `json:"retryAfter,omitempty"`
		Path       []any  `json:"path,omitempty"` // of the field in GraphQL's data
	}

	var list []shown
	if errs, ok := errors.AsType[inprocess.Errors](err); ok {
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
