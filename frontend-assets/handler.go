package assets

import (
	"bytes"
	"compress/gzip"
	"fmt"
	"maps"
	"net/http"
	"path"
	"slices"
	"sync"
)

// public lists the files that Handler serves, by the name that site owners' pages use.
var public = map[string]*file{
	"svc.js":              builtFile("svc.js", javascript),
	"captcha.js":          builtFile("captcha.js", javascript),
	"captcha-worker.js":   builtFile("captcha-worker.js", javascript),
	"captcha.wasm":        builtFile("captcha.wasm", wasm),
	"captcha-scalar.wasm": builtFile("captcha-scalar.wasm", wasm),
	"captcha.css":         builtFile("captcha.css", "text/css; charset=utf-8"),
}

// loaders lists the scripts that stand in for those of other captchas, and the files of mCaptcha's
// page for a frame, by path. They have no versioned names.
var loaders = map[string]*file{
	"/recaptcha/api.js":        builtFile("dropin/recaptcha.js", javascript),
	"/recaptcha/enterprise.js": builtFile("dropin/recaptcha.js", javascript),
	"/1/api.js":                builtFile("dropin/hcaptcha.js", javascript),
	"/turnstile/v0/api.js":     builtFile("dropin/turnstile.js", javascript),

	frameFolder + "/frame.js":            builtFile("dropin/frame.js", javascript),
	frameFolder + "/captcha-worker.js":   public["captcha-worker.js"],
	frameFolder + "/captcha.wasm":        public["captcha.wasm"],
	frameFolder + "/captcha-scalar.wasm": public["captcha-scalar.wasm"],
}

// IsLoader reports whether Handler serves one of the loaders at a path.
func IsLoader(path string) bool { return loaders[path] != nil }

const (
	javascript = "text/javascript; charset=utf-8"
	wasm       = "application/wasm"
)

// builtFile returns a file of dist/ in all encodings. It panics if one is missing, which the
// package's tests would detect.
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
// "/svc.0123456789ab.js" for "svc.js". Tallygate's own pages use it because browsers may cache it
// forever. It panics if there is no such asset.
func Versioned(name string) string {
	f, ok := public[name]
	if !ok {
		panic("assets: there is no asset named " + name)
	}
	extension := path.Ext(name)
	return "/" + name[:len(name)-len(extension)] + "." + hash(f.plain()) + extension
}

// Handler returns the handler of the public browser assets. Names such as /svc.js are cached for an
// hour, and versioned names (see Versioned) for a year. A version of another build is answered with
// 404. Responses have a strong ETag per encoding, are readable from any origin, and set no cookie.
// The handler accepts GET and HEAD only.
func Handler() http.Handler {
	return readOnly(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if route, ok := routes()[r.URL.Path]; ok {
			route.file.servePublic(w, r, route.cacheControl)
			return
		}
		if f := faceAt(r.URL.Path); f != nil {
			f.servePublic(w, r, cacheHour)
			return
		}
		http.NotFound(w, r)
	}))
}

// route is a file at one path.
type route struct {
	file         *file
	cacheControl string
}

// routes returns the files that Handler serves, except faces, by path.
var routes = sync.OnceValue(func() map[string]route {
	all := map[string]route{}
	for name, f := range public {
		all["/"+name] = route{f, cacheHour}
		all[Versioned(name)] = route{f, cacheForever}
	}
	for path, f := range loaders {
		all[path] = route{f, cacheHour}
	}
	return all
})

// Serves reports whether Handler serves a file at a path.
func Serves(path string) bool {
	_, ok := routes()[path]
	return ok || faceAt(path) != nil
}

// Paths returns the paths that Handler serves, and the patterns of paths below a site key.
func Paths() []string { return slices.AppendSeq(facePatterns(), maps.Keys(routes())) }

// Document returns the handler of a file with this content. It answers like Handler does for a name
// without a version, but sends the content uncompressed.
func Document(contentType string, content []byte) http.Handler {
	f := &file{contentType: contentType, encodings: []encoding{newEncoding("identity", content)}}
	return readOnly(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) { f.servePublic(w, r, cacheHour) }))
}

// TextDocument is Document for a text, which it also sends in gzip.
func TextDocument(contentType string, content []byte) http.Handler {
	var zipped bytes.Buffer
	w, _ := gzip.NewWriterLevel(&zipped, gzip.BestCompression)
	_, _ = w.Write(content)
	_ = w.Close() // a buffer accepts every write

	f := &file{contentType: contentType, encodings: []encoding{newEncoding("gzip", zipped.Bytes()), newEncoding("identity", content)}}
	return readOnly(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) { f.servePublic(w, r, cacheHour) }))
}

// servePublic is serve for a file that any website may load, including websites that use
// cross-origin isolation (COEP) or integrity attributes.
func (f *file) servePublic(w http.ResponseWriter, r *http.Request, cacheControl string) {
	w.Header().Set("Access-Control-Allow-Origin", "*")
	w.Header().Set("Cross-Origin-Resource-Policy", "cross-origin")
	f.serve(w, r, cacheControl)
}
