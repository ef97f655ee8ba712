// Package jsonbody reads request bodies that are one small JSON object. It is strict about the JSON
// and lenient about the types of its values. The endpoints of the data plane call it. It knows no
// endpoint's members.
package jsonbody

import (
	"bytes"
	"errors"
	"io"
	"net/http"
	"sync"
)

// Max is the largest body in bytes.
const Max = 8 * 1024

// ErrTooLarge is returned for a body that is larger than Max bytes or was cut off.
var ErrTooLarge = errors.New("jsonbody: larger than 8 KB, or cut off")

var buffers = sync.Pool{New: func() any { return new(bytes.Buffer) }}

// Read reads a body of at most Max bytes. Compressed bodies are not decompressed. The caller passes
// the buffer to Free.
func Read(r *http.Request) (*bytes.Buffer, error) {
	if r.ContentLength > Max {
		return nil, ErrTooLarge
	}

	b, err := ReadStart(r)
	if err != nil {
		Free(b)
		return nil, err
	}

	return b, nil
}

// ReadStart is Read for a caller that can use the start of a body that is too large. With
// ErrTooLarge it returns the first Max bytes, or none of a body that was cut off. The caller passes
// the buffer to Free in either case.
func ReadStart(r *http.Request) (*bytes.Buffer, error) {
	b := buffers.Get().(*bytes.Buffer)
	b.Reset()

	if _, err := b.ReadFrom(io.LimitReader(r.Body, Max+1)); err != nil {
		b.Reset()
		return b, ErrTooLarge
	}

	if b.Len() > Max {
		b.Truncate(Max)
		return b, ErrTooLarge
	}

	return b, nil
}

// Free returns a buffer to the pool.
func Free(b *bytes.Buffer) { buffers.Put(b) }
