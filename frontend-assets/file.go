package assets

import (
	"crypto/sha256"
	"encoding/hex"
	"net/http"
	"strconv"
	"strings"
)

// Cache lifetimes. A name without a version changes its content at each release, so that browsers
// have to ask again within the hour; a name with a version never does.
const (
	cacheHour    = "public, max-age=3600"
	cacheForever = "public, max-age=31536000, immutable"
)

// file is one asset with the encodings that it is stored in.
type file struct {
	contentType string
	encodings   []encoding // best first; the last one is the plain form
}

// encoding is one stored form of a file.
type encoding struct {
	name string // as in Content-Encoding; "identity" is the plain form
	body []byte
	etag string // strong: of these very bytes
}

func newEncoding(name string, body []byte) encoding {
	return encoding{name: name, body: body, etag: `"` + hash(body) + `"`}
}

// hash names a content: 12 hexadecimal characters of its SHA-256.
func hash(content []byte) string {
	sum := sha256.Sum256(content)
	return hex.EncodeToString(sum[:6])
}

// plain is the file as it was before compression.
func (f *file) plain() []byte { return f.encodings[len(f.encodings)-1].body }

// serve answers a GET or HEAD request with the encoding that the client likes best, or with 304
// when it has that one.
func (f *file) serve(w http.ResponseWriter, r *http.Request, cacheControl string) {
	chosen := f.choose(r.Header.Values("Accept-Encoding"))
	h := w.Header()
	h.Set("Vary", "Accept-Encoding")
	h.Set("ETag", chosen.etag)
	h.Set("Cache-Control", cacheControl)
	h.Set("X-Content-Type-Options", "nosniff")

	if matches(r.Header.Values("If-None-Match"), chosen.etag) {
		w.WriteHeader(http.StatusNotModified)
		return
	}

	h.Set("Content-Type", f.contentType)
	h.Set("Content-Length", strconv.Itoa(len(chosen.body)))

	if chosen.name != "identity" {
		h.Set("Content-Encoding", chosen.name)
	}

	if r.Method != http.MethodHead {
		// a client that went away is no error of ours
		_, _ = w.Write(chosen.body)
	}
}

// choose picks the stored encoding with the highest weight in Accept-Encoding (RFC 9110, section
// 12.5.3); of equal ones the smaller form. The plain form is for clients that accept nothing else,
// even when they refuse that too: a script that arrives is worth more than a 406.
func (f *file) choose(accept []string) encoding {
	best, bestWeight := f.encodings[len(f.encodings)-1], 0.0
	wanted := weights(accept)
	for _, e := range f.encodings {
		weight, named := wanted[e.name]
		if !named && e.name != "identity" {
			weight = wanted["*"]
		}
		if weight > bestWeight {
			best, bestWeight = e, weight
		}
	}

	return best
}

// weights reads "br;q=0.8, gzip" into {br: 0.8, gzip: 1}. An unreadable weight counts as 0, which
// means refused.
func weights(accept []string) map[string]float64 {
	found := map[string]float64{}
	for item := range strings.SplitSeq(strings.Join(accept, ","), ",") {
		name, parameters, _ := strings.Cut(item, ";")
		weight := 1.0

		if key, value, ok := strings.Cut(strings.TrimSpace(parameters), "="); ok && strings.EqualFold(strings.TrimSpace(key), "q") {
			var err error
			if weight, err = strconv.ParseFloat(strings.TrimSpace(value), 64); err != nil {
				weight = 0
			}
		}

		found[strings.ToLower(strings.TrimSpace(name))] = weight
	}

	return found
}

// matches tells whether one of the tags of If-None-Match is this one; the comparison is the weak
// one, as RFC 9110 demands.
func matches(ifNoneMatch []string, etag string) bool {
	for tag := range strings.SplitSeq(strings.Join(ifNoneMatch, ","), ",") {
		tag = strings.TrimSpace(tag)
		if tag == "*" || strings.TrimPrefix(tag, "W/") == etag {
			return true
		}
	}
	return false
}

// readOnly answers 405 to anything but GET and HEAD.
func readOnly(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.Method != http.MethodGet && r.Method != http.MethodHead {
			w.Header().Set("Allow", "GET, HEAD")
			http.Error(w, "method not allowed", http.StatusMethodNotAllowed)
			return
		}
		next.ServeHTTP(w, r)
	})
}
