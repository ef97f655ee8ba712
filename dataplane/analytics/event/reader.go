package event

import (
	"bytes"
	"errors"
	"io"
	"sync"

	"github.com/go-json-experiment/json/jsontext"

	"github.com/tallygate/tallygate/db/model"
)

const (
	// maxProperties is the most bytes of properties, both as sent and as stored (analytics contract, section 8).
	maxProperties = 4_096
	// maxDepth is how deep the objects and lists of properties may nest, the properties themselves counted. The databases
	// store any depth that fits; but everybody can send properties, and many a JSON parser gives up at some hundred levels:
	// one hit should not make an owner's whole download unreadable.
	maxDepth = 64
)

// reader reads an event's properties once and writes what is kept of them as it goes. Reading and writing fail apart from
// each other: what cannot be kept drops the properties, while the rest is still read for the fields that count.
type reader struct {
	source  bytes.Reader
	in      jsontext.Decoder
	kept    bytes.Buffer
	out     jsontext.Encoder
	host    string // of an outbound_click, normalised
	dropped bool   // nothing is kept
}

var (
	readers = sync.Pool{New: func() any { return new(reader) }}

	errNotObject = errors.New("the properties are not a JSON object")
	errTrailing  = errors.New("something follows the properties")
	errField     = errors.New("a field has the wrong type or is out of its range")
)

func (r *reader) start(properties []byte) {
	r.source.Reset(properties)
	r.kept.Reset()
	// A text that was cut in the middle of a character is mended, as it is in the rest of a payload.
	r.in.Reset(&r.source, jsontext.AllowInvalidUTF8(true))
	r.out.Reset(&r.kept)
	r.host = ""
	r.dropped = len(properties) > maxProperties
}

func (r *reader) release() {
	r.source.Reset(nil)
	readers.Put(r)
}

// custom keeps an own event's properties as they were sent: same keys in the same order, numbers as they were written.
func (r *reader) custom(name string) Accepted {
	if r.dropped {
		return Accepted{Name: name}
	}
	err := r.properties(func(key string, _ bool) error {
		r.write(jsontext.String(key))
		return r.copyValue()
	})
	if err != nil {
		r.dropped = true
	}
	return Accepted{Name: name, Properties: r.result()}
}

// properties reads the whole text, one object, and calls member as eachMember does.
func (r *reader) properties(member func(key string, exact bool) error) error {
	if err := r.eachMember(member); err != nil {
		return err
	}
	if _, err := r.in.ReadToken(); err != io.EOF {
		return errTrailing
	}
	return nil
}

// eachMember reads an object and writes one. For each member it calls member with the cleaned key, and whether it was sent like
// this, standing before the value: member reads the value, and writes key and value if they are kept.
func (r *reader) eachMember(member func(key string, exact bool) error) error {
	if r.in.PeekKind() != '{' {
		return errNotObject
	}
	if err := r.copyToken(); err != nil {
		return err
	}
	for r.in.PeekKind() != '}' {
		token, err := r.in.ReadToken()
		if err != nil {
			return err
		}
		sent := token.String()
		key := model.Clean(sent, len(sent))
		if err := member(key, key == sent); err != nil {
			return err
		}
	}
	return r.copyToken()
}

// copyValue reads a value of any type and keeps it as it is, with its texts cleaned.
func (r *reader) copyValue() error {
	for depth := r.in.StackDepth(); ; {
		if err := r.copyToken(); err != nil {
			return err
		}
		if r.in.StackDepth() == depth {
			return nil
		}
	}
}

func (r *reader) copyToken() error {
	token, err := r.in.ReadToken()
	if err != nil {
		return err
	}
	if token.Kind() == '"' {
		token = jsontext.String(cleaned(token))
	}
	if r.in.StackDepth() > maxDepth {
		r.dropped = true
	}
	r.write(token)
	return nil
}

// write keeps a token. What the encoder refuses, for instance two keys that are equal once they are cleaned, drops the
// properties.
func (r *reader) write(token jsontext.Token) {
	if !r.dropped && r.out.WriteToken(token) != nil {
		r.dropped = true
	}
}

func (r *reader) writeText(key, text string) {
	r.write(jsontext.String(key))
	r.write(jsontext.String(text))
}

func (r *reader) writeNumber(key string, n model.Money) {
	r.write(jsontext.String(key))
	if !r.dropped && r.out.WriteValue(jsontext.Value(n.String())) != nil {
		r.dropped = true
	}
}

// text reads a text and cleans it. It is false for another type.
func (r *reader) text() (string, bool, error) {
	if r.in.PeekKind() != '"' {
		return "", false, r.in.SkipValue()
	}
	token, err := r.in.ReadToken()
	if err != nil {
		return "", false, err
	}
	return cleaned(token), true, nil
}

// number reads a number between 0 and limit, both included, once it is rounded to six decimals. It is false for another
// type and outside the range.
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

// result is the text that is kept; empty when nothing is.
func (r *reader) result() string {
	text := bytes.TrimSuffix(r.kept.Bytes(), []byte("\n"))
	// Mended texts can be longer than what was sent: one bad byte becomes a character of three.
	if r.dropped || len(text) > maxProperties || string(text) == "{}" {
		return ""
	}
	return string(text)
}

func cleaned(token jsontext.Token) string {
	s := token.String()
	return model.Clean(s, len(s)) // no cut: there are never more characters than bytes
}
