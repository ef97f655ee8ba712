package assets

import (
	"bytes"
	"compress/gzip"
	"fmt"
	"io"
	"net/http"
	"path"
	"strings"
	"sync"
)

// graphiqlPrefix is where the page finds its files.
const graphiqlPrefix = "/graphiql/"

// graphiqlFiles are the page's own files, in the order of loading; a version or hash in the name
// lets browsers keep them forever.
var graphiqlFiles = func() []namedFile {
	start := builtFile("graphiql/start.js", "text/javascript; charset=utf-8")
	return []namedFile{
		thirdPartyFile("graphiql-4.1.2.css", "text/css; charset=utf-8"),
		thirdPartyFile("react-18.2.0.js", "text/javascript; charset=utf-8"),
		thirdPartyFile("react-dom-18.2.0.js", "text/javascript; charset=utf-8"),
		thirdPartyFile("graphiql-4.1.2.js", "text/javascript; charset=utf-8"),
		{name: "start." + hash(start.plain()) + ".js", file: start},
	}
}()

type namedFile struct {
	name string
	file *file
	// plain returns the file with its plain form filled in, which is unpacked for the first client
	// that asks for it and kept from then on. Nil when the file has it already.
	plain func() (*file, error)
}

// thirdPartyFile takes a file of thirdparty/graphiql/, which is stored gzip-compressed only.
func thirdPartyFile(name, contentType string) namedFile {
	zipped, err := thirdParty.ReadFile("thirdparty/graphiql/" + name + ".gz")
	if err != nil {
		panic(fmt.Sprintf("assets: %v", err))
	}
	f := &file{contentType, []encoding{newEncoding("gzip", zipped), {name: "identity"}}}
	return namedFile{name: name, file: f, plain: sync.OnceValues(f.unpacked)}
}

// unpacked returns the file with its plain form filled in.
func (f *file) unpacked() (*file, error) {
	r, err := gzip.NewReader(bytes.NewReader(f.encodings[0].body))
	if err != nil {
		return nil, err
	}

	body, err := io.ReadAll(r)
	if err != nil {
		return nil, err
	}

	return &file{f.contentType, []encoding{f.encodings[0], newEncoding("identity", body)}}, nil
}

// graphiqlPolicy lets the page do what GraphiQL needs and no more: scripts and requests of its own
// origin. Inline styles are GraphiQL's own doing (its editor and its panes size themselves with
// style attributes and elements).
const graphiqlPolicy = "default-src 'none'; script-src 'self'; style-src 'self' 'unsafe-inline'; img-src 'self' data:; " +
	"connect-src 'self'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'"

// graphiqlPage is the same for everybody.
var graphiqlPage = func() []byte {
	var page bytes.Buffer
	page.WriteString("<!doctype html>\n<html lang=\"en\">\n<meta charset=\"utf-8\">\n<title>Tallygate</title>\n" +
		"<meta name=\"viewport\" content=\"width=device-width, initial-scale=1\">\n<link rel=\"icon\" href=\"data:,\">\n" +
		"<style>html, body, #graphiql { height: 100%; margin: 0 }</style>\n")

	for _, f := range graphiqlFiles {
		if path.Ext(f.name) == ".css" {
			fmt.Fprintf(&page, "<link rel=\"stylesheet\" href=\"%s%s\">\n", graphiqlPrefix, f.name)
		} else {
			fmt.Fprintf(&page, "<script src=\"%s%s\" defer></script>\n", graphiqlPrefix, f.name)
		}
	}

	page.WriteString("<div id=\"graphiql\"><noscript>GraphiQL needs JavaScript. The API itself is at POST /graphql.</noscript></div>\n</html>\n")
	return page.Bytes()
}()

// GraphiQL serves the page on which a person tries the GraphQL API, without anything from another
// host. The control plane mounts it twice, unchanged:
//
//	GET /graphql      for browsers (Accept: text/html): the page; so does any path that is not below /graphiql/
//	GET /graphiql/…   the page's files, cached for a year, since their names carry a version
//
// The page posts to /graphql of its own origin, with the session cookie. It cannot be framed. Only
// GET and HEAD are accepted.
func GraphiQL() http.Handler {
	files := map[string]namedFile{}
	for _, f := range graphiqlFiles {
		files[graphiqlPrefix+f.name] = f
	}

	return readOnly(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if !strings.HasPrefix(r.URL.Path, graphiqlPrefix) {
			serveGraphiQLPage(w)
			return
		}

		named, ok := files[r.URL.Path]
		if !ok {
			http.NotFound(w, r)
			return
		}

		f := named.file
		if named.plain != nil && f.choose(r.Header.Values("Accept-Encoding")).name == "identity" {
			var err error
			if f, err = named.plain(); err != nil {
				http.Error(w, "the file could not be unpacked", http.StatusInternalServerError)
				return
			}
		}

		w.Header().Set("Cross-Origin-Resource-Policy", "same-origin")
		f.serve(w, r, cacheForever)
	}))
}

func serveGraphiQLPage(w http.ResponseWriter) {
	h := w.Header()
	h.Set("Content-Type", "text/html; charset=utf-8")
	h.Set("Content-Security-Policy", graphiqlPolicy)
	h.Set("X-Frame-Options", "DENY")
	h.Set("X-Content-Type-Options", "nosniff")
	h.Set("Referrer-Policy", "same-origin")
	h.Set("Cache-Control", "no-cache")

	// the same address answers operations, too
	h.Set("Vary", "Accept")
	_, _ = w.Write(graphiqlPage)
}
