package assets

import (
	"crypto/sha256"
	"encoding/hex"
	"net/http"
	"strconv"
	"strings"
)

// Values of Cache-Control. A name without a version changes its content with each release, so
// browsers revalidate it after an hour. The content of a name with a version never changes.
const (
	cacheHour    = "public, max-age=3600"
	cacheForever = "public, max-age=31536000, immutable"
)

// file is one asset in all its stored encodings.
//
// github.com/vearutop/statigz 1.4.0 also serves precompressed embedded files, but it ignores the
// weights of Accept-Encoding (it sends gzip for "gzip;q=0"), sends unquoted ETags, compares
// If-None-Match as one string, and has no charset in the type of scripts.
type file struct {
	contentType string
	encodings   []encoding // best first; the last one is uncompressed
}

// encoding is one stored encoding of a file.
type encoding struct {
	name string // as in Content-Encoding; "identity" is uncompressed
	body []byte
	etag string // strong: a hash of body
}

func newEncoding(name string, body []byte) encoding {
	return encoding{name: name, body: body, etag: `"` + hash(body) + `"`}
}

// hash returns the first 12 hexadecimal characters of a content's SHA-256.
func hash(content []byte) string {
	sum := sha256.Sum256(content)
	return hex.EncodeToString(sum[:6])
}

// plain returns the uncompressed content.
func (f *file) plain() []byte { return f.encodings[len(f.encodings)-1].body }

// serve answers a GET or HEAD request with the client's preferred encoding, or with 304 if the
// client has it.
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
		// A write fails only if the client has disconnected.
		_, _ = w.Write(chosen.body)
	}
}

// choose returns the stored encoding with the highest weight in Accept-Encoding (RFC 9110, section
// 12.5.3), and among equal weights the smallest. Clients that accept none get the uncompressed
// content, even if they refuse that too, because a script is more useful than status 406.
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

// weights parses Accept-Encoding: "br;q=0.8, gzip" gives {br: 0.8, gzip: 1}. A malformed weight
// counts as 0, which means refused.
func weights(accept []string) map[string]float64 {
	found := map[string]float64{}
	for item := range strings.SplitSeq(strings.Join(accept, ","), ",") {
		name, parameters, _ := strings.Cut(item, ";")
		weight := 1.0

		key, value, ok := strings.Cut(strings.TrimSpace(parameters), "=")
		if ok && strings.EqualFold(strings.TrimSpace(key), "q") {
			var err error
			if weight, err = strconv.ParseFloat(strings.TrimSpace(value), 64); err != nil {
				weight = 0
			}
		}

		found[strings.ToLower(strings.TrimSpace(name))] = weight
	}

	return found
}

// matches reports whether If-None-Match contains the ETag. It uses weak comparison, as RFC 9110
// requires.
func matches(ifNoneMatch []string, etag string) bool {
	for tag := range strings.SplitSeq(strings.Join(ifNoneMatch, ","), ",") {
		tag = strings.TrimSpace(tag)
		if tag == "*" || strings.TrimPrefix(tag, "W/") == etag {
			return true
		}
	}
	return false
}

// readOnly answers methods other than GET and HEAD with 405.
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
