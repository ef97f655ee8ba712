package mcp

import (
	"bytes"
	"context"
	"encoding/json"
	"flag"
	"net/http"
	"net/http/httptest"
	"os"
	"strings"
	"testing"

	"github.com/tallygate/tallygate/db/model"
	"github.com/tallygate/tallygate/graph/auth"
	"github.com/tallygate/tallygate/graph/inprocess"
	"github.com/tallygate/tallygate/tools/testkit"
)

var update = flag.Bool("update", false, "write the golden list of tools")

// maxList bounds the list of tools, in bytes. An assistant reads it in each conversation.
const maxList = 30 << 10

// callers have the kinds of callers.
func callers() map[string]auth.Caller {
	user := &model.User{ID: 1, Role: model.RoleOwner, Account: &model.Account{}}
	return map[string]auth.Caller{
		"shared link": {Shared: &model.SharedView{}},
		"READ":        {User: user, Token: &model.APIToken{Scopes: []model.Scope{model.ScopeRead}}},
		"WRITE":       {User: user, Token: &model.APIToken{Scopes: []model.Scope{model.ScopeWrite}}},
	}
}

// exchange sends a message to the protocol as a caller, who is known already.
func exchange(s *server, caller auth.Caller, message string, header ...string) *httptest.ResponseRecorder {
	r := httptest.NewRequest(http.MethodPost, Path, strings.NewReader(message))
	r.Header.Set("Content-Type", "application/json")
	r.Header.Set("Accept", "application/json, text/event-stream")
	for i := 0; i < len(header); i += 2 {
		r.Header.Set(header[i], header[i+1])
	}

	w := httptest.NewRecorder()
	s.json.ServeHTTP(w, r.WithContext(context.WithValue(r.Context(), callKey{}, &inprocess.Call{API: s.API, HTTP: r, Caller: caller})))
	return w
}

const listMessage = `{"jsonrpc":"2.0","id":1,"method":"tools/list"}`

// TestListOfTools checks which tools each kind of caller sees, in the old and in the new protocol,
// and that the list stays short.
func TestListOfTools(t *testing.T) {
	s, _ := newServer(t, nil)
	const newMessage = `{"jsonrpc":"2.0","id":1,"method":"tools/list","params":{"_meta":{
"io.modelcontextprotocol/protocolVersion":"2026-07-28","io.modelcontextprotocol/clientInfo":{"name":"a","version":"1"},
"io.modelcontextprotocol/clientCapabilities":{}}}}`
	newHeader := []string{"Mcp-Protocol-Version", "2026-07-28", "Mcp-Method", "tools/list"}

	for name, caller := range callers() {
		var want []string
		for _, tool := range s.tools {
			if name == "WRITE" || name == "READ" && !tool.changes() || tool.readers() {
				want = append(want, tool.operation.Name)
			}
		}

		for protocol, w := range map[string]*httptest.ResponseRecorder{
			"old": exchange(s, caller, listMessage), "new": exchange(s, caller, newMessage, newHeader...),
		} {
			var got struct {
				Result struct {
					Tools []struct {
						Name, Description         string
						InputSchema, OutputSchema struct{ Type string }
					}
					CacheScope, ResultType string
				}
			}
			if err := json.Unmarshal(w.Body.Bytes(), &got); err != nil {
				t.Fatalf("%s, %s: %v: %s", name, protocol, err, w.Body)
			}

			var names []string
			for _, tool := range got.Result.Tools {
				names = append(names, tool.Name)
				if tool.Description == "" || tool.InputSchema.Type != "object" || tool.OutputSchema.Type != "object" {
					t.Errorf("%s, %s: %+v", name, protocol, tool)
				}
			}
			testkit.EqualSlices(t, names, want, "%s, %s", name, protocol)
			if got.Result.CacheScope != "private" || (got.Result.ResultType == "complete") != (protocol == "new") {
				t.Errorf("%s, %s: cache scope %q, type %q", name, protocol, got.Result.CacheScope, got.Result.ResultType)
			}
			if w.Body.Len() > maxList {
				t.Errorf("%s, %s: %d bytes, want at most %d", name, protocol, w.Body.Len(), maxList)
			}
		}
	}

	page := exchange(s, callers()["READ"], `{"jsonrpc":"2.0","id":1,"method":"tools/list","params":{"cursor":"x"}}`)
	if !strings.Contains(page.Body.String(), `"code":-32602`) {
		t.Errorf("a cursor: %s", page.Body)
	}
}

// TestListIsTheGoldenOne shows each change of the list, which follows from the documents and from
// the descriptions of the GraphQL schema.
func TestListIsTheGoldenOne(t *testing.T) {
	const golden = "testdata/tools.json"
	s, _ := newServer(t, nil)
	var got bytes.Buffer
	testkit.NoError(t, json.Indent(&got, s.lists[configures], "", " "))
	got.WriteByte('\n')

	if *update {
		testkit.NoError(t, os.WriteFile(golden, got.Bytes(), 0o644))
	}
	want, err := os.ReadFile(golden)
	testkit.NoError(t, err)
	if !bytes.Equal(got.Bytes(), want) {
		t.Errorf("the list differs from %s: write it with -update, and read the difference", golden)
	}
}

// BenchmarkToolsList measures the protocol's part of tools/list.
func BenchmarkToolsList(b *testing.B) {
	s, _ := newServer(b, nil)
	for name, caller := range callers() {
		b.Run(name, func(b *testing.B) {
			for b.Loop() {
				w := exchange(s, caller, listMessage)
				b.ReportMetric(float64(w.Body.Len()), "bytes")
			}
		})
	}
}
