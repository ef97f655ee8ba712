package endpoint

import (
	"bytes"
	"compress/gzip"
	"mime"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"sync"

	"github.com/vektah/gqlparser/v2/ast"
)

// leastCompressed is the size in bytes from which an answer is compressed.
const leastCompressed = 1 << 10

// isCompressible reports whether an operation's answer may be compressed: a query with a report and
// without a secret. The length of a compressed answer says whether two of its parts are alike, and
// visitors choose parts of reports, such as paths (the BREACH attack).
func isCompressible(operation *ast.OperationDefinition) bool {
	if operation.Operation != ast.Query {
		return false
	}
	report, secret := selected(operation.SelectionSet)
	return report && !secret
}

// selected reports whether a selection has reports, and fields that may hold a secret. Addresses of
// webhooks are such fields: they often contain a token.
func selected(set ast.SelectionSet) (report, secret bool) {
	for _, selection := range set {
		var inner ast.SelectionSet

		switch selection := selection.(type) {
		case *ast.Field:
			report = report || selection.Name == "report"
			secret = secret || isSecret(selection.Name)
			inner = selection.SelectionSet
		case *ast.InlineFragment:
			inner = selection.SelectionSet
		case *ast.FragmentSpread:
			inner = selection.Definition.SelectionSet
		}

		innerReport, innerSecret := selected(inner)
		report, secret = report || innerReport, secret || innerSecret
	}
	return report, secret
}

// isSecret reports whether the name of a field stands for a secret, or for a text that may contain
// a secret.
func isSecret(field string) bool {
	field = strings.ToLower(field)
	for _, part := range []string{"secret", "token", "url", "body"} {
		if strings.Contains(field, part) {
			return true
		}
	}
	return false
}

// writers are for the answers of all requests: a writer has 800 KB of memory.
var writers = sync.Pool{New: func() any {
	w, err := gzip.NewWriterLevel(nil, gzip.BestSpeed)
	if err != nil {
		// The level is valid.
		panic(err)
	}
	return w
}}

// compress returns the body in gzip's format if the client accepts that and the body is large.
func compress(w http.ResponseWriter, r *http.Request, body []byte) []byte {
	w.Header().Add("Vary", "Accept-Encoding")
	if len(body) < leastCompressed || !Accepts(r.Header.Values("Accept-Encoding"), "gzip") {
		return body
	}

	var compressed bytes.Buffer
	zip := writers.Get().(*gzip.Writer)
	defer writers.Put(zip)
	zip.Reset(&compressed)

	// A buffer takes all writes.
	_, _ = zip.Write(body)
	_ = zip.Close()

	w.Header().Set("Content-Encoding", "gzip")
	return compressed.Bytes()
}

// Accepts reports whether the values of a header such as Accept name one of the names, and not with
// the weight 0 (RFC 9110, section 12.4.2).
func Accepts(header []string, names ...string) bool {
	for item := range strings.SplitSeq(strings.Join(header, ","), ",") {
		name, parameters, err := mime.ParseMediaType(item)
		if err != nil || !slices.Contains(names, name) {
			continue
		}

		weight, err := strconv.ParseFloat(parameters["q"], 64)
		if parameters["q"] == "" || err == nil && weight > 0 {
			return true
		}
	}
	return false
}
