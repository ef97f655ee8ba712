package jsonbody

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

// ErrJSON is returned for a text that is not one JSON object.
var ErrJSON = errors.New("jsonbody: not one JSON object")

// Object reads a JSON object member by member, as bufio.Scanner reads lines:
//
//	o := jsonbody.Open(text)
//	defer o.Close()
//
//	for o.Next() {
//		switch o.Key() {
//		case "sitekey":
//			o.Exact(&call.sitekey)
//		}
//	}
//	return o.Err()
//
// A value that the loop does not read is skipped. After an error Next returns false, and the
// methods that read values do nothing.
//
// Object is strict about the JSON: no text after the object, and no key twice. Keys are case
// sensitive. Within nested values a key may occur twice, as JSON allows. Invalid UTF-8 and lone
// surrogates become U+FFFD, since browsers produce them when a script cuts a text within a
// character.
type Object struct {
	decoder jsontext.Decoder
	text    bytes.Reader
	key     string
	seen    keys // of the outermost object
	depth   int  // number of objects that are open
	unread  bool // the value of key was not read yet
	err     error

	body *bytes.Buffer // of OpenRequest, for Free
}

var objects = sync.Pool{New: func() any { return new(Object) }}

// Open returns an Object that reads text. The caller calls Close, and does not use the Object after
// that.
func Open(text []byte) *Object {
	o := objects.Get().(*Object)
	o.text.Reset(text)
	o.decoder.Reset(&o.text, jsontext.AllowInvalidUTF8(true), jsontext.AllowDuplicateNames(true))
	o.Enter()
	return o
}

// OpenRequest returns an Object that reads the body of a request, whatever its content type. Err
// returns ErrTooLarge if the body is too large or was cut off. The caller calls Close.
func OpenRequest(r *http.Request) *Object {
	b, err := Read(r)
	if err != nil {
		o := objects.Get().(*Object)
		o.err = err
		return o
	}

	o := Open(b.Bytes())
	o.body = b
	return o
}

// Close makes the Object available to another Open.
func (o *Object) Close() {
	if o.body != nil {
		Free(o.body)
		o.body = nil
	}

	o.seen = keys{}
	o.key, o.depth, o.unread, o.err = "", 0, false, nil
	objects.Put(o)
}

// Err returns, once Next has returned false, ErrJSON if the text is not one JSON object, or the
// error of OpenRequest.
func (o *Object) Err() error { return o.err }

// Key returns the key of the current member.
func (o *Object) Key() string { return o.key }

// Kind returns the JSON type of the current member's value.
func (o *Object) Kind() jsontext.Kind { return o.decoder.PeekKind() }

// Next moves to the next member, and reports whether there is one. At the end of a nested object it
// returns false once, and then continues with the members of the outer one.
func (o *Object) Next() bool {
	o.Skip()

	if o.err != nil {
		return false
	}

	if o.decoder.PeekKind() == '}' {
		o.leave()
		return false
	}

	key, ok := o.token()
	if !ok {
		return false
	}

	o.key, o.unread = key.String(), true

	if o.depth == 1 && !o.seen.add(o.key) {
		o.err = ErrJSON
	}

	return o.err == nil
}

// Enter opens a value that is an object, whose members Next then returns. It reports false for a
// value of another type.
func (o *Object) Enter() bool {
	if o.err != nil {
		return false
	}

	if o.decoder.PeekKind() != '{' {
		// The outermost value must be an object.
		if o.depth == 0 {
			o.err = ErrJSON
		}

		return false
	}

	_, ok := o.token()
	o.depth++
	return ok
}

// leave reads the end of the current object, and checks that nothing follows the outermost one.
func (o *Object) leave() {
	o.token()
	o.depth--

	if o.depth == 0 {
		if _, err := o.decoder.ReadToken(); err != io.EOF {
			o.err = ErrJSON
		}
	}
}

// token reads a token as part of the current value.
func (o *Object) token() (jsontext.Token, bool) {
	o.unread = false
	token, err := o.decoder.ReadToken()
	if err != nil {
		o.err = ErrJSON
	}
	return token, err == nil
}

// Skip skips the current value, unless it was read.
func (o *Object) Skip() {
	if o.err != nil || !o.unread {
		return
	}

	o.unread = false
	if o.decoder.SkipValue() != nil {
		o.err = ErrJSON
	}
}

// Exact reads a text as it was sent: a name, key, secret or id, which is compared and must not be
// altered. A value of another type leaves s unchanged.
func (o *Object) Exact(s *string) {
	if o.err != nil || o.decoder.PeekKind() != '"' {
		return
	}
	if token, ok := o.token(); ok {
		*s = token.String()
	}
}

// Text reads a text, cleans it (see model.Clean) and cuts it to limit characters. A value of
// another type leaves s unchanged.
func (o *Object) Text(s *string, limit int) {
	if o.err != nil || o.decoder.PeekKind() != '"' {
		return
	}
	if token, ok := o.token(); ok {
		*s = model.Clean(token.String(), limit)
	}
}

// Number reads the text of a number, which is valid until the next call. It returns nil for a value
// of another type.
func (o *Object) Number() []byte {
	if o.err != nil || o.decoder.PeekKind() != '0' {
		return nil
	}
	return o.Raw()
}

// Raw reads the value as it was sent, which is valid until the next call. It returns nil for an
// invalid one.
func (o *Object) Raw() []byte {
	if o.err != nil {
		return nil
	}

	o.unread = false
	value, err := o.decoder.ReadValue()
	if err != nil {
		o.err = ErrJSON
		return nil
	}

	return value
}

// keys is a set of keys that holds the keys of an ordinary body without an allocation. Its zero
// value is empty.
type keys struct {
	few   [16]string
	count int
	more  map[string]bool
}

// add adds a key, and reports whether it was new.
func (k *keys) add(key string) bool {
	if slices.Contains(k.few[:k.count], key) || k.more[key] {
		return false
	}

	if k.count < len(k.few) {
		k.few[k.count] = key
		k.count++
		return true
	}

	if k.more == nil {
		k.more = make(map[string]bool)
	}

	k.more[key] = true
	return true
}
