package event

import (
	"bytes"
	"sync"

	"github.com/go-json-experiment/json/jsontext"

	"github.com/tallygate/tallygate/db/model"
)

// reader reads an event's properties and writes those that are kept. Reading and writing fail
// independently: properties that cannot be stored are dropped, while the fields of the event are
// still read.
type reader struct {
	canonical canonical
	source    bytes.Reader
	in        jsontext.Decoder // of the canonical text
	kept      bytes.Buffer
	out       jsontext.Encoder
	host      string // of an outbound_click, normalised
	err       error  // the properties are not a JSON object
	dropped   bool   // no property is kept
}

var readers = sync.Pool{New: func() any { return new(reader) }}

// start begins to read the properties of an event.
func (r *reader) start(properties []byte) {
	r.err = r.canonical.read(properties)
	r.source.Reset(r.canonical.text)
	r.in.Reset(&r.source)
	r.kept.Reset()
	r.out.Reset(&r.kept)
	r.host = ""
	r.dropped = r.err != nil || r.canonical.useless || len(r.canonical.text) > maxProperties
}

// release returns the reader to the pool.
func (r *reader) release() {
	r.source.Reset(nil)
	readers.Put(r)
}

// custom keeps the properties of a site's own event as they were sent: the same keys in the same
// order, and numbers as they were written.
func (r *reader) custom(name string) Accepted {
	if r.dropped {
		return Accepted{Name: name}
	}
	return Accepted{Name: name, Properties: orNothing(r.canonical.text)}
}

// properties is eachMember for the properties of the event.
func (r *reader) properties(member func(key string) error) error {
	if r.err != nil {
		return r.err
	}
	return r.eachMember(member)
}

// eachMember reads an object and writes an object. For each member it calls member with the key.
// member must read the value, and writes key and value if they are kept.
func (r *reader) eachMember(member func(key string) error) error {
	if err := r.copyToken(); err != nil {
		return err
	}

	for r.in.PeekKind() != '}' {
		token, err := r.in.ReadToken()
		if err != nil {
			return err
		}
		if err := member(token.String()); err != nil {
			return err
		}
	}

	return r.copyToken()
}

// copyMember keeps a member with a value of any type.
func (r *reader) copyMember(key string) error {
	value, err := r.in.ReadValue()
	if err == nil {
		r.write(jsontext.String(key))
		r.writeValue(value)
	}
	return err
}

// copyToken keeps a bracket or brace.
func (r *reader) copyToken() error {
	token, err := r.in.ReadToken()
	if err == nil {
		r.write(token)
	}
	return err
}

// write keeps a token. A token that the encoder refuses drops the properties.
func (r *reader) write(token jsontext.Token) {
	if !r.dropped && r.out.WriteToken(token) != nil {
		r.dropped = true
	}
}

func (r *reader) writeValue(value jsontext.Value) {
	if !r.dropped && r.out.WriteValue(value) != nil {
		r.dropped = true
	}
}

func (r *reader) writeText(key, text string) {
	r.write(jsontext.String(key))
	r.write(jsontext.String(text))
}

func (r *reader) writeNumber(key string, n model.Money) {
	r.write(jsontext.String(key))
	r.writeValue(jsontext.Value(n.String()))
}

// text reads a text. It reports false for another type.
func (r *reader) text() (string, bool, error) {
	if r.in.PeekKind() != '"' {
		return "", false, r.in.SkipValue()
	}

	token, err := r.in.ReadToken()
	if err != nil {
		return "", false, err
	}

	return token.String(), true, nil
}

// textOrNumber is text, except that a number counts as its text.
func (r *reader) textOrNumber() (string, bool, error) {
	if r.in.PeekKind() != '0' {
		return r.text()
	}

	token, err := r.in.ReadToken()
	if err != nil {
		return "", false, err
	}

	return token.String(), true, nil
}

// number reads a number and rounds it to six decimals. It reports false for another type, and for a
// result that is not between 0 and limit, both included.
func (r *reader) number(limit model.Money) (model.Money, bool, error) {
	if r.in.PeekKind() != '0' {
		return 0, false, r.in.SkipValue()
	}

	token, err := r.in.ReadToken()
	if err != nil {
		return 0, false, err
	}

	n, ok := model.ParseMoney(token.String())
	return n, ok && n >= 0 && n <= limit, nil
}

// result returns the properties that are kept, or an empty string.
func (r *reader) result() string {
	text := bytes.TrimSuffix(r.kept.Bytes(), []byte("\n"))
	if r.dropped || len(text) > maxProperties {
		return ""
	}
	return orNothing(text)
}

// orNothing returns the text of an object, or an empty string for an empty object.
func orNothing(object []byte) string {
	if string(object) == "{}" {
		return ""
	}
	return string(object)
}
