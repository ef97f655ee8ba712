// Package body reads the bodies of requests to the data plane: small, and strict about JSON itself
// while lenient about what is in it. It knows neither contract.
package body

import (
	"bytes"
	"errors"
	"io"
	"net/http"
	"slices"
	"sync"

	"github.com/go-json-experiment/json/jsontext"

	"github.com/tallygate/tallygate/db/model"
)

// Max is the largest body in bytes.
const Max = 8 * 1024

// Why a body is refused.
var (
	ErrTooLarge = errors.New("body: larger than 8 KB, or cut off")
	ErrJSON     = errors.New("body: not one JSON object")
)

var buffers = sync.Pool{New: func() any { return new(bytes.Buffer) }}

// Read reads a body of at most Max bytes as it was sent: compressed ones are not inflated. The
// caller hands the buffer to Free.
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

// ReadStart is Read for a caller that can use the beginning of a body that is too large: with
// ErrTooLarge it returns the first Max bytes, or none of a body that is cut off. The caller hands
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

// Free takes a buffer back.
func Free(b *bytes.Buffer) { buffers.Put(b) }

var decoders = sync.Pool{New: func() any { return new(jsontext.Decoder) }}

// Object reads a body that is one JSON object, and calls member once per key with the decoder
// standing before its value, which member must read or skip. It is strict about JSON itself:
// nothing after the object, no key twice; keys count in their exact case. Within the values a key
// may stand twice, as JSON itself allows. Bad UTF-8 and lone surrogates become U+FFFD instead of an
// error, since a browser can produce them from a text that was cut in the middle of a character.
// Anything else is ErrJSON.
func Object(b []byte, member func(d *jsontext.Decoder, key string) error) error {
	d := decoders.Get().(*jsontext.Decoder)
	defer decoders.Put(d)

	d.Reset(bytes.NewReader(b), jsontext.AllowInvalidUTF8(true), jsontext.AllowDuplicateNames(true))

	var seen names
	err := Members(d, func(d *jsontext.Decoder, key string) error {
		if !seen.add(key) {
			return ErrJSON
		}
		return member(d, key)
	})
	if err != nil {
		return ErrJSON
	}
	if _, err := d.ReadToken(); err != io.EOF {
		return ErrJSON
	}

	return nil
}

// names are the keys of an object that were read so far. Its zero value is empty.
type names struct {
	few   [16]string // what every ordinary body needs
	count int
	more  map[string]bool
}

// add reports whether a key is new, and remembers it.
func (n *names) add(key string) bool {
	if slices.Contains(n.few[:n.count], key) || n.more[key] {
		return false
	}

	if n.count < len(n.few) {
		n.few[n.count] = key
		n.count++
		return true
	}

	if n.more == nil {
		n.more = make(map[string]bool)
	}

	n.more[key] = true
	return true
}

// Members is Object for an object within another one, where a key may stand twice: member is called
// for each.
func Members(d *jsontext.Decoder, member func(d *jsontext.Decoder, key string) error) error {
	token, err := d.ReadToken()
	if err != nil {
		return err
	}
	if token.Kind() != '{' {
		return ErrJSON
	}

	for d.PeekKind() != '}' {
		key, err := d.ReadToken()
		if err != nil {
			return err
		}
		if err := member(d, key.String()); err != nil {
			return err
		}
	}

	_, err = d.ReadToken()
	return err
}

// Exact reads a text as it was sent: a name, key, secret or id, which is compared and must not
// become another one first. Another JSON type leaves it empty.
func Exact(d *jsontext.Decoder, s *string) error {
	if d.PeekKind() != '"' {
		return d.SkipValue()
	}

	token, err := d.ReadToken()
	if err != nil {
		return err
	}

	*s = token.String()
	return nil
}

// Text reads a text, cleaned (see model.Clean) and cut to limit characters. Another JSON type
// leaves it empty.
func Text(d *jsontext.Decoder, s *string, limit int) error {
	if d.PeekKind() != '"' {
		return d.SkipValue()
	}

	token, err := d.ReadToken()
	if err != nil {
		return err
	}

	*s = model.Clean(token.String(), limit)
	return nil
}
