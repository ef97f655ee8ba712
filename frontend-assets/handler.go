package assets

import (
	"fmt"
	"net/http"
	"path"
)

// public lists what Handler serves, by the name that stands in site owners' pages.
var public = map[string]*file{
	"svc.js":              builtFile("svc.js", javascript),
	"captcha.js":          builtFile("captcha.js", javascript),
	"captcha-worker.js":   builtFile("captcha-worker.js", javascript),
	"captcha.wasm":        builtFile("captcha.wasm", wasm),
	"captcha-scalar.wasm": builtFile("captcha-scalar.wasm", wasm),
	"captcha.css":         builtFile("captcha.css", "text/css; charset=utf-8"),
}

const (
	javascript = "text/javascript; charset=utf-8"
	wasm       = "application/wasm"
)

// builtFile takes a file of dist/ with its compressed twins. It panics when the build left one out,
// which the package's tests would have seen.
func builtFile(name, contentType string) *file {
	f := &file{contentType: contentType}
	for _, form := range []struct{ encoding, suffix string }{{"br", ".br"}, {"gzip", ".gz"}, {"identity", ""}} {
		body, err := built.ReadFile("dist/" + name + form.suffix)
		if err != nil {
			panic(fmt.Sprintf("assets: %v; run \"go run ./frontend-assets/build\"", err))
		}

		f.encodings = append(f.encodings, newEncoding(form.encoding, body))
	}

	return f
}

// Versioned returns the path of an asset with its content's hash in the name, for example
// "/svc.0123456789ab.js" for "svc.js". Pages that we render ourselves use it, as it may be cached
// forever. It panics when there is no such asset.
func Versioned(name string) string {
	f, ok := public[name]
	if !ok {
		panic("assets: no asset is called " + name)
	}
	extension := path.Ext(name)
	return "/" + name[:len(name)-len(extension)] + "." + hash(f.plain()) + extension
}

// Handler serves the public browser assets, such as /svc.js, cached for an hour, and their
// versioned twins (see Versioned), cached for a year. A version that is not this build's is 404.
// The answers carry a strong ETag per encoding, may be used by pages of any origin, and need no
// cookie. Only GET and HEAD are accepted.
func Handler() http.Handler {
	type route struct {
		file         *file
		cacheControl string
	}

	routes := map[string]route{}
	for name, f := range public {
		routes["/"+name] = route{f, cacheHour}
		routes[Versioned(name)] = route{f, cacheForever}
	}

	return readOnly(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		route, ok := routes[r.URL.Path]
		if !ok {
			http.NotFound(w, r)
			return
		}

		// Every website loads these, also those that isolate themselves (COEP) or use integrity
		// attributes.
		w.Header().Set("Access-Control-Allow-Origin", "*")
		w.Header().Set("Cross-Origin-Resource-Policy", "cross-origin")
		route.file.serve(w, r, route.cacheControl)
	}))
}
