package segment

import (
	"bytes"
	"slices"

	"github.com/go-json-experiment/json/jsontext"
)

// propertyReader reads the properties of events, one after the other. An event can have hundreds,
// of which only the first ones by name are kept, so it copies none of the others.
type propertyReader struct {
	decoder *jsontext.Decoder
	list    []flatProperty
	text    []byte // unquoted, of the current name
}

// flatProperty is a property with a text, a number, true or false. A text is quoted, as in the
// object.
type flatProperty struct {
	name  string
	value []byte
}

// read lists the first MaxProperties properties of a JSON object, by name, whose value is a text, a
// number, true or false. Lists and objects are not broken down (analytics contract, section 2). The
// list is valid until the next call, and its values while the object is. An object that is not JSON
// has none.
func (r *propertyReader) read(object []byte) []flatProperty {
	r.list = r.list[:0]
	if len(object) == 0 {
		return nil
	}

	source := bytes.NewBuffer(object)
	options := []jsontext.Options{jsontext.AllowDuplicateNames(true), jsontext.AllowInvalidUTF8(true)}
	if r.decoder == nil {
		r.decoder = jsontext.NewDecoder(source, options...)
	} else {
		r.decoder.Reset(source, options...)
	}
	if token, err := r.decoder.ReadToken(); err != nil || token.Kind() != '{' {
		return nil
	}

	for r.decoder.PeekKind() != '}' {
		if !r.member(object) {
			return nil
		}
	}
	return r.list
}

// member reads the next member of the object. It reports whether the object can be read.
func (r *propertyReader) member(object []byte) bool {
	name, err := r.decoder.ReadValue()
	if err != nil {
		return false
	}
	if r.text, err = jsontext.AppendUnquote(r.text[:0], name); err != nil {
		return false
	}

	value, err := r.decoder.ReadValue()
	if err != nil {
		return false
	}
	switch value.Kind() {
	case '{', '[', 'n':
	default:
		// The decoder's value is valid until its next call only.
		end := r.decoder.InputOffset()
		r.keep(object[end-int64(len(value)) : end])
	}
	return true
}

// keep adds the current property, in place of one of the same name or of the last one by name.
func (r *propertyReader) keep(value []byte) {
	at, known := slices.BinarySearchFunc(r.list, r.text, func(p flatProperty, name []byte) int {
		return compareText(p.name, name)
	})
	switch {
	case known:
		r.list[at].value = value
	case at < MaxProperties:
		r.list = r.list[:min(len(r.list), MaxProperties-1)]
		r.list = slices.Insert(r.list, at, flatProperty{string(r.text), value})
	}
}

// compareText compares a text with bytes, without a copy.
func compareText(text string, other []byte) int {
	switch {
	case text == string(other):
		return 0
	case text < string(other):
		return -1
	default:
		return 1
	}
}

// of returns the value as reports show it: a text without its quotes, all else as stored. ok is
// false for a text that cannot be read.
func (p *flatProperty) of() (value string, ok bool) {
	if p.value[0] != '"' {
		return string(p.value), true
	}
	text, err := jsontext.AppendUnquote(nil, p.value)
	return string(text), err == nil
}
