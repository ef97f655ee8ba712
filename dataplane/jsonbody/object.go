package jsonbody

import (
	"bytes"
	"errors"
	"net/http"
	"slices"
	"sync"

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
//
// Texts share the memory of the whole object, so a caller that keeps one for longer than a request
// clones it.
type Object struct {
	text   string
	at     int // the next byte that is not read
	key    string
	seen   keys // of the outermost object
	depth  int  // number of objects that are open
	begun  bool // a member of the current object was read
	unread bool // the value of key was not read yet; it begins at at
	err    error

	body *bytes.Buffer // of OpenRequest, for Free
}

var objects = sync.Pool{New: func() any { return new(Object) }}

// Open returns an Object that reads a copy of text. The caller calls Close, and does not use the
// Object after that.
func Open(text []byte) *Object {
	o := objects.Get().(*Object)
	o.text = string(text)
	o.at, o.unread = spaceEnd(o.text, 0), true

	if !o.Enter() {
		o.err = ErrJSON
	}

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
	}

	*o = Object{}
	objects.Put(o)
}

// Err returns, once Next has returned false, ErrJSON if the text is not one JSON object, or the
// error of OpenRequest.
func (o *Object) Err() error { return o.err }

// Key returns the key of the current member.
func (o *Object) Key() string { return o.key }

// Kind is the JSON type of a value, by the first byte that it can have: n for null, t and f for the
// booleans, " for a text, 0 for a number, { for an object and [ for an array.
type Kind byte

// Kind returns the JSON type of the current member's value, or 0 if there is none.
func (o *Object) Kind() Kind {
	if o.err != nil || !o.unread || o.at == len(o.text) {
		return 0
	}

	switch c := o.text[o.at]; c {
	case 'n', 't', 'f', '"', '{', '[':
		return Kind(c)
	case '-', '0', '1', '2', '3', '4', '5', '6', '7', '8', '9':
		return '0'
	}

	return 0
}

// Next moves to the next member, and reports whether there is one. At the end of a nested object it
// returns false once, and then continues with the members of the outer one.
func (o *Object) Next() bool {
	o.Skip()
	if o.err != nil || o.depth == 0 {
		return false
	}

	o.at = spaceEnd(o.text, o.at)
	if byteAt(o.text, o.at) == '}' {
		o.leave()
		return false
	}

	if o.begun {
		if byteAt(o.text, o.at) != ',' {
			return o.fail()
		}
		o.at = spaceEnd(o.text, o.at+1)
	}

	return o.readKey()
}

// readKey reads a key and the colon after it.
func (o *Object) readKey() bool {
	end, plain := textEnd(o.text, o.at)
	if end < 0 {
		return o.fail()
	}

	o.key = unquote(o.text[o.at:end], plain)
	o.at = spaceEnd(o.text, end)

	if byteAt(o.text, o.at) != ':' {
		return o.fail()
	}

	o.at = spaceEnd(o.text, o.at+1)
	o.begun, o.unread = true, true

	if o.depth == 1 && !o.seen.add(o.key) {
		return o.fail()
	}

	return true
}

// fail ends the reading with ErrJSON.
func (o *Object) fail() bool {
	o.err = ErrJSON
	return false
}

// Enter opens a value that is an object, whose members Next then returns. It reports false for a
// value of another type.
func (o *Object) Enter() bool {
	if o.Kind() != '{' {
		return false
	}

	o.at++
	o.depth++
	o.begun, o.unread = false, false

	return true
}

// leave reads the end of the current object, and checks that nothing follows the outermost one.
func (o *Object) leave() {
	o.at++
	o.depth--
	o.begun = true

	if o.depth == 0 && spaceEnd(o.text, o.at) != len(o.text) {
		o.err = ErrJSON
	}
}

// Skip skips the current value, unless it was read.
func (o *Object) Skip() { _ = o.Raw() }

// Exact reads a text as it was sent: a name, key, secret or id, which is compared and must not be
// altered. A value of another type leaves s unchanged.
func (o *Object) Exact(s *string) {
	if exact, ok := o.exact(); ok {
		*s = exact
	}
}

// Bool sets b to the value of the current member if that is true or false.
func (o *Object) Bool(b *bool) {
	switch o.Raw() {
	case "true":
		*b = true
	case "false":
		*b = false
	}
}

// Text reads a text, cleans it (see model.Clean) and cuts it to limit characters. A value of
// another type leaves s unchanged.
func (o *Object) Text(s *string, limit int) {
	if exact, ok := o.exact(); ok {
		*s = model.Clean(exact, limit)
	}
}

// exact reads a text. It is false for a value of another type and for an invalid one.
func (o *Object) exact() (string, bool) {
	if o.Kind() != '"' {
		return "", false
	}

	end, plain := textEnd(o.text, o.at)
	if end < 0 {
		return "", o.fail()
	}

	quoted := o.text[o.at:end]
	o.at, o.unread = end, false

	return unquote(quoted, plain), true
}

// Number reads the text of a number. It returns an empty one for a value of another type.
func (o *Object) Number() string {
	if o.Kind() != '0' {
		return ""
	}
	return o.Raw()
}

// Raw reads the value as it was sent. It returns an empty text for an invalid one.
func (o *Object) Raw() string {
	if o.err != nil || !o.unread {
		return ""
	}

	end := valueEnd(o.text, o.at)
	if end < 0 {
		o.err = ErrJSON
		return ""
	}

	raw := o.text[o.at:end]
	o.at, o.unread = end, false

	return raw
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
