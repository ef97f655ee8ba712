package graph_test

import (
	"bytes"
	"compress/gzip"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/Khan/genqlient/generate"
	"github.com/vektah/gqlparser/v2"
	"github.com/vektah/gqlparser/v2/ast"
	"github.com/vektah/gqlparser/v2/formatter"

	"github.com/tallygate/tallygate/graph"
)

// TestSchemaFile reads the schema as one file: it parses, and is the schema that the server runs.
func TestSchemaFile(t *testing.T) {
	t.Parallel()
	text := graph.SchemaText()
	parsed := value(gqlparser.LoadSchema(&ast.Source{Name: "schema.graphqls", Input: text}))(t)

	var again strings.Builder
	formatter.NewFormatter(&again, formatter.WithIndent("  ")).FormatSchema(parsed)
	if again.String() != text || graph.SchemaText() != text {
		t.Error("the text differs after a round trip, or from call to call")
	}

	compared := 0
	for name, def := range schema.Types {
		if def.BuiltIn {
			continue
		}
		other := parsed.Types[name]
		if other == nil || other.Description != def.Description || other.Kind != def.Kind ||
			strings.Join(other.Interfaces, " ") != strings.Join(def.Interfaces, " ") {
			t.Errorf("%s differs", name)
			continue
		}
		for _, field := range fieldsOf(def) {
			compared++
			if differs(field, other.Fields.ForName(field.Name)) {
				t.Errorf("%s.%s differs", name, field.Name)
			}
		}
		for _, value := range def.EnumValues {
			compared++
			if found := other.EnumValues.ForName(value.Name); found == nil || found.Description != value.Description {
				t.Errorf("%s.%s differs", name, value.Name)
			}
		}
		if len(fieldsOf(other)) != len(fieldsOf(def)) || len(other.EnumValues) != len(def.EnumValues) {
			t.Errorf("%s has other fields or values", name)
		}
	}
	if len(parsed.Types) != len(schema.Types) || compared < 1000 {
		t.Errorf("%d types of %d, %d fields and values", len(parsed.Types), len(schema.Types), compared)
	}

	// The directives are part of the file, with descriptions, and introspection leaves them out.
	for _, name := range []string{"needs", "open", "members", "cost"} {
		if directive := parsed.Directives[name]; directive == nil || directive.Description == "" {
			t.Errorf("the directive @%s is missing or has no description", name)
		}
	}
	for _, want := range []string{
		"Requires the role MEMBER or OWNER; an API token needs the scope WRITE.",
		"@needs(permission: CONFIGURE, of: SITE)",
	} {
		if !strings.Contains(text, want) {
			t.Errorf("the file lacks %q", want)
		}
	}
}

// differs reports whether two fields have other types, descriptions, arguments or directives.
func differs(a, b *ast.FieldDefinition) bool {
	if b == nil || a.Type.String() != b.Type.String() || a.Description != b.Description || len(a.Arguments) != len(b.Arguments) ||
		len(a.Directives) != len(b.Directives) || (a.DefaultValue == nil) != (b.DefaultValue == nil) {
		return true
	}
	for _, argument := range a.Arguments {
		other := b.Arguments.ForName(argument.Name)
		if other == nil || other.Type.String() != argument.Type.String() || other.Description != argument.Description ||
			other.DefaultValue.String() != argument.DefaultValue.String() {
			return true
		}
	}
	return a.DefaultValue != nil && a.DefaultValue.String() != b.DefaultValue.String()
}

// TestSchemaFileOverHTTP reads the file as a client and a cache do.
func TestSchemaFileOverHTTP(t *testing.T) {
	t.Parallel()
	handler := graph.SchemaFile()
	get := func(method string, header ...string) *http.Response {
		r := httptest.NewRequest(method, graph.SchemaPath, nil)
		for i := 0; i < len(header); i += 2 {
			r.Header.Set(header[i], header[i+1])
		}
		w := httptest.NewRecorder()
		handler.ServeHTTP(w, r)
		return w.Result()
	}

	plain := get(http.MethodGet)
	body, _ := io.ReadAll(plain.Body)
	if plain.StatusCode != http.StatusOK || string(body) != graph.SchemaText() ||
		plain.Header.Get("Content-Type") != "application/graphql; charset=utf-8" ||
		plain.Header.Get("Cache-Control") == "" || plain.Header.Get("ETag") == "" || plain.Header.Get("Vary") != "Accept-Encoding" {
		t.Errorf("status %d, %d bytes, %v", plain.StatusCode, len(body), plain.Header)
	}

	zipped := get(http.MethodGet, "Accept-Encoding", "gzip")
	reader := value(gzip.NewReader(zipped.Body))(t)
	if unzipped, err := io.ReadAll(reader); err != nil || !bytes.Equal(unzipped, body) || zipped.Header.Get("Content-Encoding") != "gzip" ||
		zipped.Header.Get("ETag") == plain.Header.Get("ETag") {
		t.Errorf("in gzip: %d bytes, %v, %v", len(unzipped), err, zipped.Header)
	}

	if known := get(http.MethodGet, "If-None-Match", plain.Header.Get("ETag")); known.StatusCode != http.StatusNotModified {
		t.Errorf("a known file: status %d", known.StatusCode)
	}
	head := get(http.MethodHead)
	if empty, _ := io.ReadAll(head.Body); head.StatusCode != http.StatusOK || len(empty) != 0 || head.Header.Get("ETag") != plain.Header.Get("ETag") {
		t.Errorf("HEAD: status %d, %d bytes, %v", head.StatusCode, len(empty), head.Header)
	}
	if posted := get(http.MethodPost); posted.StatusCode != http.StatusMethodNotAllowed {
		t.Errorf("POST: status %d", posted.StatusCode)
	}
}

// TestClientFromSchemaFile generates a client from the file with genqlient, for all operations of
// the project's own client.
func TestClientFromSchemaFile(t *testing.T) {
	t.Parallel()
	folder := t.TempDir()
	for name, copied := range map[string]string{
		"operations.graphql": "../client/operations.graphql", "configure-site.graphql": "../../docs/owner/configure-site.graphql",
		"genqlient.yaml": "../client/genqlient.yaml",
	} {
		text := value(os.ReadFile(copied))(t)
		text = bytes.ReplaceAll(text, []byte("../schema/*.graphqls"), []byte("schema.graphqls"))
		text = bytes.ReplaceAll(text, []byte("../../docs/owner/"), nil)
		must(t, os.WriteFile(filepath.Join(folder, name), text, 0o600))
	}
	must(t, os.WriteFile(filepath.Join(folder, "schema.graphqls"), []byte(graph.SchemaText()), 0o600))

	config := value(generate.ReadAndValidateConfig(filepath.Join(folder, "genqlient.yaml")))(t)
	if len(config.Schema) != 1 || !strings.Contains(config.Schema[0], "schema.graphqls") {
		t.Fatalf("the configuration names the schema %q", config.Schema)
	}
	files := value(generate.Generate(config))(t)

	var code []byte
	for _, file := range files {
		code = append(code, file...)
	}
	if want := []byte("type CreateSiteInput struct"); !bytes.Contains(code, want) {
		t.Errorf("the generated client, %d bytes, lacks %q", len(code), want)
	}
}
