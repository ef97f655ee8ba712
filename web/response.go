package web

import (
	"io"
	"net/http"
	"sync"
)

// response remembers the status and the size of an answer.
type response struct {
	http.ResponseWriter
	status int   // 0 until the header is written
	bytes  int64 // of the body
}

// responses keeps responses for reuse: a hit allocates nothing for its metrics.
var responses = sync.Pool{New: func() any { return new(response) }}

// newResponse returns the response to a request. The caller passes it to free.
func newResponse(w http.ResponseWriter) *response {
	r := responses.Get().(*response)
	*r = response{ResponseWriter: w}
	return r
}

func (w *response) free() {
	*w = response{}
	responses.Put(w)
}

// ended completes an answer whose handler has written nothing.
func (w *response) ended() {
	if w.status == 0 {
		w.status = http.StatusOK
	}
}

// WriteHeader implements http.ResponseWriter.
func (w *response) WriteHeader(status int) {
	// Informational headers come before the one that counts.
	if w.status == 0 && status >= http.StatusOK {
		w.status = status
	}
	w.ResponseWriter.WriteHeader(status)
}

// Write implements http.ResponseWriter.
func (w *response) Write(b []byte) (int, error) {
	w.ended()
	n, err := w.ResponseWriter.Write(b)
	w.bytes += int64(n)
	return n, err
}

// ReadFrom implements io.ReaderFrom, by which net/http copies without a buffer for each answer.
func (w *response) ReadFrom(from io.Reader) (int64, error) {
	w.ended()
	n, err := io.Copy(w.ResponseWriter, from)
	w.bytes += n
	return n, err
}

// Unwrap gives http.ResponseController the connection's writer.
func (w *response) Unwrap() http.ResponseWriter { return w.ResponseWriter }
