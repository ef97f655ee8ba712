package event

import (
	"bytes"
	"errors"
	"io"
	"math"
	"strconv"
	"strings"
	"unicode/utf8"

	"github.com/go-json-experiment/json/jsontext"

	"github.com/tallygate/tallygate/db/model"
)

const (
	// maxProperties is the largest size of properties in their canonical form, in bytes (analytics
	// contract, section 8).
	maxProperties = 4_096
	// maxDepth is the deepest nesting of objects and lists, including the properties themselves.
	// The databases store any depth. But anyone can send properties, and many JSON parsers fail at
	// some hundred levels: one hit must not make an owner's whole download unreadable.
	maxDepth = 64
	// maxAlike is the most keys of one object that may become equal when characters that no
	// database stores are replaced.
	maxAlike = 8
	// fewMembers is the most keys of an object that are searched linearly.
	fewMembers = 16
)

var (
	errNotObject = errors.New("the properties are not a JSON object")
	errTrailing  = errors.New("text after the properties")
)

// canonical reads the text of m or meta once and writes its canonical form: compact, in UTF-8, with
// each key once. Of a repeated key the last value is kept. Texts and numbers stay as they were
// sent, with two exceptions: NUL and half surrogates become U+FFFD, and a number beyond a double
// becomes a text, so that every JSON parser can read it.
type canonical struct {
	source  bytes.Reader
	in      jsontext.Decoder
	text    []byte
	members []member // of all open objects, those of the innermost one last
	useless bool     // too deep or too ambiguous to be stored
}

// member is a key and its value in the canonical text.
type member struct {
	sent       string // the key as it was sent, see readKey
	key        string // the key as it is stored
	start, end int    // in the text, including the key; start is removed for a repeated key
}

const removed = -1

// read reads the properties, which must be one JSON object, into c.text.
func (c *canonical) read(properties []byte) error {
	c.source.Reset(properties)
	defer c.source.Reset(nil)

	c.in.Reset(&c.source, jsontext.AllowInvalidUTF8(true), jsontext.AllowDuplicateNames(true))
	c.text, c.members, c.useless = c.text[:0], c.members[:0], false

	if c.in.PeekKind() != '{' {
		return errNotObject
	}
	if err := c.value(0); err != nil {
		return err
	}
	if _, err := c.in.ReadToken(); err != io.EOF {
		return errTrailing
	}

	return nil
}

// value reads a value inside depth objects and lists. A value that is too deep is replaced by null,
// since the other properties may still be needed.
func (c *canonical) value(depth int) error {
	kind := c.in.PeekKind()
	if (kind == '{' || kind == '[') && depth == maxDepth {
		c.useless = true
		c.text = append(c.text, "null"...)
		return c.in.SkipValue()
	}

	switch kind {
	case '{':
		return c.object(depth + 1)
	case '[':
		return c.list(depth + 1)
	case '"':
		token, err := c.in.ReadToken()
		if err != nil {
			return err
		}

		c.quote(storable(token.String()))
		return nil
	}

	raw, err := c.in.ReadValue()
	if err != nil {
		return err
	}

	if kind == '0' && !isDouble(raw) {
		c.quote(string(raw))
		return nil
	}

	c.text = append(c.text, raw...)
	return nil
}

// list reads a list.
func (c *canonical) list(depth int) error {
	if err := c.token(); err != nil {
		return err
	}

	for first := true; c.in.PeekKind() != ']'; first = false {
		if !first {
			c.text = append(c.text, ',')
		}
		if err := c.value(depth); err != nil {
			return err
		}
	}

	return c.token()
}

// object reads an object.
func (c *canonical) object(depth int) error {
	if err := c.token(); err != nil {
		return err
	}

	o := object{canonical: c, first: len(c.members), begin: len(c.text)}
	for c.in.PeekKind() != '}' {
		if err := o.member(depth); err != nil {
			return err
		}
	}

	o.close()
	return c.token()
}

// token copies a bracket or brace.
func (c *canonical) token() error {
	token, err := c.in.ReadToken()
	if err == nil {
		c.text = append(c.text, byte(token.Kind()))
	}
	return err
}

// quote writes a text. AppendQuote fails for invalid UTF-8 only, which s is not.
func (c *canonical) quote(s string) {
	c.text, _ = jsontext.AppendQuote(c.text, s)
}

// object is an object that is being read.
type object struct {
	*canonical
	first    int            // index of its first member
	begin    int            // of its members in the text
	index    map[string]int // of its members by key; nil while there are few
	repeated bool           // some key is repeated
}

// member reads a key and its value.
func (o *object) member(depth int) error {
	sent, key, err := o.readKey()
	if err != nil {
		return err
	}

	key, old := o.slot(sent, key)
	if old >= 0 {
		o.members[old].start = removed
		o.repeated = true
	}

	if len(o.text) > o.begin {
		o.text = append(o.text, ',')
	}

	m := member{sent: sent, key: key, start: len(o.text)}
	o.quote(key)

	o.text = append(o.text, ':')
	if err := o.value(depth); err != nil {
		return err
	}

	m.end = len(o.text)
	o.add(m)
	return nil
}

// readKey reads a key, and returns it as it was sent and as it is stored. A key with half
// surrogates is not a text: for it, sent is the key's JSON after a byte that no text contains.
func (o *object) readKey() (sent, key string, err error) {
	raw, err := o.in.ReadValue()
	if err != nil {
		return "", "", err
	}

	if plain := raw[1 : len(raw)-1]; utf8.Valid(plain) && bytes.IndexByte(plain, '\\') < 0 {
		sent = string(plain)
		return sent, sent, nil
	}

	text, invalid := jsontext.AppendUnquote(nil, []byte(raw))
	if invalid != nil {
		return "\xff" + string(raw), storable(string(text)), nil
	}

	sent = string(text)
	return sent, storable(sent), nil
}

// slot returns the key under which a member is stored, and the index of the member that it replaces
// or -1. A key that became equal to a different one gets a further U+FFFD, so that both are kept.
func (o *object) slot(sent, key string) (string, int) {
	for range maxAlike {
		i := o.find(key)
		if i < 0 || o.members[i].sent == sent {
			return key, i
		}

		key += string(rune(0xFFFD))
	}

	o.useless = true
	return key, o.find(key)
}

// find returns the index of the member with this key, or -1.
func (o *object) find(key string) int {
	if o.index != nil {
		if i, ok := o.index[key]; ok {
			return i
		}

		return -1
	}

	for i := len(o.members) - 1; i >= o.first; i-- {
		if o.members[i].key == key {
			return i
		}
	}

	return -1
}

// add adds a member, and indexes the members once there are many.
func (o *object) add(m member) {
	o.members = append(o.members, m)
	if o.index == nil && len(o.members)-o.first > fewMembers {
		o.index = make(map[string]int)
		for i := o.first; i < len(o.members); i++ {
			o.index[o.members[i].key] = i
		}
	}

	if o.index != nil {
		o.index[m.key] = len(o.members) - 1
	}
}

// close removes replaced members from the text.
func (o *object) close() {
	if o.repeated {
		text := o.text[:o.begin]
		for _, m := range o.members[o.first:] {
			if m.start == removed {
				continue
			}
			if len(text) > o.begin {
				text = append(text, ',')
			}

			// The text shrinks, so that append never overwrites what is still to be read.
			text = append(text, o.text[m.start:m.end]...)
		}

		o.text = text
	}

	o.members = o.members[:o.first]
}

// storable is model.Storable without a limit, since a text has at most as many characters as bytes.
func storable(s string) string { return model.Storable(s, len(s)) }

// isDouble reports whether a double can represent a JSON number: it is neither too large, nor so
// small that it becomes 0.
func isDouble(number []byte) bool {
	const safe = 300 // digits, without an exponent
	if len(number) < safe && !bytes.ContainsAny(number, "eE") {
		return true
	}

	text := string(number)
	f, err := strconv.ParseFloat(text, 64)
	if err != nil || math.IsInf(f, 0) {
		return false
	}

	mantissa, _, _ := strings.Cut(strings.ToLower(text), "e")
	return f != 0 || !strings.ContainsAny(mantissa, "123456789")
}
