package jsonbody_test

import (
	"bytes"
	"fmt"
	"io"
	"slices"
	"strings"
	"testing"

	"github.com/go-json-experiment/json/jsontext"

	"github.com/tallygate/tallygate/dataplane/jsonbody"
	"github.com/tallygate/tallygate/db/model"
)

// reader is what Object and its oracle have in common.
type reader interface {
	Next() bool
	Enter() bool
	Key() string
	Exact(*string)
	Text(*string, int)
	Number() string
	Raw() string
	Err() error
}

// oracle is Object on top of the decoder of package jsontext.
type oracle struct {
	decoder *jsontext.Decoder
	key     string
	seen    []string // keys of the outermost object
	depth   int
	unread  bool
	err     error
}

func newOracle(text string) *oracle {
	o := &oracle{decoder: jsontext.NewDecoder(strings.NewReader(text), jsontext.AllowInvalidUTF8(true), jsontext.AllowDuplicateNames(true))}
	if o.decoder.PeekKind() != '{' {
		o.err = jsonbody.ErrJSON
	}
	o.Enter()
	return o
}

func (o *oracle) Err() error  { return o.err }
func (o *oracle) Key() string { return o.key }

func (o *oracle) Next() bool {
	if o.unread {
		o.Raw()
	}
	if o.err != nil {
		return false
	}

	if o.decoder.PeekKind() == '}' {
		o.token()
		o.depth--

		if o.depth == 0 {
			if _, err := o.decoder.ReadToken(); err != io.EOF {
				o.err = jsonbody.ErrJSON
			}
		}

		return false
	}

	token := o.token()
	if o.err != nil {
		return false
	}

	o.key, o.unread = token.String(), true

	if o.depth == 1 {
		if slices.Contains(o.seen, o.key) {
			o.err = jsonbody.ErrJSON
		}
		o.seen = append(o.seen, o.key)
	}

	return o.err == nil
}

func (o *oracle) Enter() bool {
	if o.err != nil || o.decoder.PeekKind() != '{' {
		return false
	}
	o.token()
	o.depth++
	return o.err == nil
}

func (o *oracle) token() jsontext.Token {
	o.unread = false
	token, err := o.decoder.ReadToken()
	if err != nil {
		o.err = jsonbody.ErrJSON
	}
	return token
}

func (o *oracle) Exact(s *string) {
	if o.err != nil || o.decoder.PeekKind() != '"' {
		return
	}
	if token := o.token(); o.err == nil {
		*s = token.String()
	}
}

func (o *oracle) Text(s *string, limit int) {
	var exact string
	if o.Exact(&exact); o.err == nil && !o.unread {
		*s = model.Clean(exact, limit)
	}
}

func (o *oracle) Number() string {
	if o.err != nil || o.decoder.PeekKind() != '0' {
		return ""
	}
	return o.Raw()
}

func (o *oracle) Raw() string {
	if o.err != nil {
		return ""
	}
	o.unread = false
	value, err := o.decoder.ReadValue()
	if err != nil {
		o.err = jsonbody.ErrJSON
		return ""
	}
	return string(value)
}

// walk reads an object, with a method for each member that the plan selects, and returns what it
// read.
func walk(r reader, plan []byte) string {
	var got strings.Builder
	for step, depth := 0, 1; depth > 0 && r.Err() == nil; step++ {
		if !r.Next() {
			depth--
			continue
		}

		method := byte(0)
		if len(plan) > 0 {
			method = plan[step%len(plan)] % 6
		}

		text := "unset"
		switch method {
		case 0:
			r.Exact(&text)
		case 1:
			r.Text(&text, 3)
		case 2:
			text = r.Number()
		case 3:
			text = r.Raw()
		case 4:
			if r.Enter() {
				depth++
				text = "("
			}
		}

		// A member whose value is missing may show or not: either way its object is an error.
		if text != "unset" && text != "" {
			fmt.Fprintf(&got, "%q %d %q\n", r.Key(), method, text)
		}
	}

	return got.String() + fmt.Sprint(r.Err())
}

// compare checks that Object reads what its oracle reads.
func compare(t *testing.T, text string, plan []byte) {
	t.Helper()

	o := jsonbody.Open([]byte(text))
	defer o.Close()

	if got, want := walk(o, plan), walk(newOracle(text), plan); got != want {
		t.Errorf("%q with plan %v is read as\n%s\nwant\n%s", text, plan, got, want)
	}
}

// oracleTexts are objects and near misses.
var oracleTexts = []string{
	`{}`, ` { "a" : 1 , "b" : -0.5e+10 } `, `{"a":"x","b":[1,{"c":null}],"c":{"d":{}},"e":true,"f":false}`,
	`{"k":"0123","t":"pageview","p":"/a?b#c","u":{"source":"A","term":"B","source":"C"},"w":1e999,"m":{"a":[[],[{}]]}}`,
	`{"a":"\ud83d\ude00\ud83d\u0041\ude00\ud800","\u0062":"\b\f\n\r\t\/\\\"\u0000","b":1}`, "{\"a\":\"\xff\xc3\x28\xe2\x82\"}",
	"{\"\xff\":1,\"\xfe\":2}",
	`{"a":01}`, `{"a":1.}`, `{"a":.5}`, `{"a":-}`, `{"a":+1}`, `{"a":1e}`, `{"a":1e+}`, `{"a":1.5.5}`, `{"a":0x1}`, `{"a":nul}`,
	`{"a":nulll}`, `{"a":tru e}`,
	`{"a":1,}`, `{,}`, `{"a":1 "b":2}`, `{"a" 1}`, `{"a"}`, `{"a":}`, `{"a":[1,]}`, `{"a":[,1]}`, `{"a":[1 2]}`, `{"a":{"b":1,}}`,
	`{"a":{"b"}}`, `{"a":[}`, `{"a":{]}`,
	`{"a":"x`, "{\"a\":\"x\ny\"}", `{"a":"\x"}`, `{"a":"\u12"}`, `{"a":"\u12g4"}`, `{"a":1}x`, `{"a":1}{}`, "{\"a\":1}\x00", "\x00{}", `[]`,
	`"a"`, `1`, ``, ` `, "\ufeff{}",
	`{"a":` + strings.Repeat("[", 300) + strings.Repeat("]", 300) + `}`, `{"a":` + strings.Repeat(`{"b":`, 300) + "1" + strings.Repeat("}", 300) + `}`,
}

// TestOracle compares Object with its oracle on each text, on every start of it and with each byte
// replaced.
func TestOracle(t *testing.T) {
	plans := [][]byte{{0}, {1}, {2}, {3}, {4}, {5}, {4, 0, 3, 2, 1, 5}}
	for _, text := range oracleTexts {
		for _, plan := range plans {
			compare(t, text, plan)
		}

		if len(text) > 200 {
			continue
		}

		for i := range text {
			compare(t, text[:i], plans[i%len(plans)])

			for _, c := range []byte("\"\\{}[],:0 \x01\xed") {
				changed := bytes.Clone([]byte(text))
				changed[i] = c
				compare(t, string(changed), plans[(i+int(c))%len(plans)])
			}
		}
	}
}

// FuzzOracle compares Object with its oracle.
func FuzzOracle(f *testing.F) {
	for i, text := range oracleTexts {
		f.Add(text, []byte{byte(i), 4, 0})
	}

	f.Fuzz(func(t *testing.T, text string, plan []byte) {
		// Beyond the largest body, jsontext limits the depth.
		if len(text) <= jsonbody.Max {
			compare(t, text, plan)
		}
	})
}
