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

// graphiqlPrefix is the path prefix of the page's files.
const graphiqlPrefix = "/graphiql/"

// graphiqlFiles lists the page's files in loading order. Each name contains a version or hash, so
// browsers may cache the file forever.
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
	// plain returns the file including its uncompressed content, which the first call unpacks. It
	// is nil for files that are stored uncompressed too.
	plain func() (*file, error)
}

// thirdPartyFile returns a file of thirdparty/graphiql/, which holds gzip-compressed files only.
func thirdPartyFile(name, contentType string) namedFile {
	zipped, err := thirdParty.ReadFile("thirdparty/graphiql/" + name + ".gz")
	if err != nil {
		panic(fmt.Sprintf("assets: %v", err))
	}
	f := &file{contentType, []encoding{newEncoding("gzip", zipped), {name: "identity"}}}
	return namedFile{name: name, file: f, plain: sync.OnceValues(f.unpacked)}
}

// unpacked returns the file including its uncompressed content.
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

// graphiqlPolicy allows only what GraphiQL needs: scripts and requests of its own origin, and
// inline styles, which its editor and panes use for their sizes.
const graphiqlPolicy = "default-src 'none'; script-src 'self'; style-src 'self' 'unsafe-inline'; img-src 'self' data:; " +
	"connect-src 'self'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'"

// graphiqlPage is the page, which is the same for all users.
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

	page.WriteString("<div id=\"graphiql\"><noscript>GraphiQL needs JavaScript. The API itself is at POST /graphql." +
		"</noscript></div>\n</html>\n")
	return page.Bytes()
}()

// GraphiQL returns the handler of the page for trying the GraphQL API, which loads nothing from
// other hosts. The control plane mounts it at two paths:
//
//	GET /graphql      for browsers (Accept: text/html): the page, as for any path not below /graphiql/
//	GET /graphiql/…   the page's files, cached for a year, because their names contain a version
//
// The page posts to /graphql of its own origin, with the session cookie. It cannot be framed. The
// handler accepts GET and HEAD only.
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

	// The same address also answers GraphQL operations.
	h.Set("Vary", "Accept")
	_, _ = w.Write(graphiqlPage)
}
