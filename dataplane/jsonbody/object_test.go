package jsonbody_test

import (
	"encoding/json"
	"strings"
	"testing"

	"github.com/tallygate/tallygate/dataplane/jsonbody"
	"github.com/tallygate/tallygate/tools/testkit"
)

// read returns the texts of an object.
func read(b string) (map[string]string, error) {
	o := jsonbody.Open([]byte(b))
	defer o.Close()

	texts := make(map[string]string)

	for o.Next() {
		var s string
		o.Text(&s, 5)
		texts[o.Key()] = s
	}

	return texts, o.Err()
}

func TestObject(t *testing.T) {
	for _, test := range []struct {
		body, want string // want is the texts as JSON, or empty for ErrJSON
	}{
		{`{}`, `{}`}, {" \n{}\t", `{}`}, {`{"a":"x","A":"y"}`, `{"A":"y","a":"x"}`},
		{`{"a":null,"b":1,"c":[{"d":"e"}],"f":{"a":"x"},"g":true}`, `{"a":"","b":"","c":"","f":"","g":""}`},
		{`{"a":"` + "\\u0000\\n" + `x"}`, `{"a":"x"}`}, {`{"a":"123456"}`, `{"a":"12345"}`}, {"{\"a\":\"\xff\"}", `{"a":"�"}`},
		{`{"a":"\ud800"}`, `{"a":"�"}`},
		{``, ``}, {`null`, ``}, {`[]`, ``}, {`"a"`, ``}, {`{"a":"x"`, ``}, {`{"a":}`, ``}, {`{}{}`, ``}, {`{} x`, ``}, {`{"a":"x","a":"y"}`, ``},
		{`{"a":"x","b":{"c":1,"c":2},"d":"y"}`, `{"a":"x","b":"","d":"y"}`}, {`{"a":"x","\u0061":"y"}`, ``},
		{"\ufeff{}", ``}, {`{a:1}`, ``}, {`{"a":` + strings.Repeat("[", 20_000), ``},
	} {
		texts, err := read(test.body)
		got, _ := json.Marshal(texts)
		if test.want == "" && err != jsonbody.ErrJSON || test.want != "" && (err != nil || string(got) != test.want) {
			t.Errorf("%.40q: %s, %v; want %s", test.body, got, err, test.want)
		}
	}
}

// TestExact checks that a text stays as it was sent.
func TestExact(t *testing.T) {
	for text, want := range map[string]string{
		`"a"`: "a", `"a\u0000\nb "`: "a\x00\nb ", `"` + strings.Repeat("x", 8_000) + `"`: strings.Repeat("x", 8_000), `""`: "", `1`: "",
		`{"b":"c"}`: "", `null`: "",
		`"\ud83d\uDE00 \b\f\r\t\/\\\"\u20ac"`: "😀 \b\f\r\t/\\\"€", `"\ude00\ud83d\u0041"`: "\ufffd\ufffdA", "\"\xff\xe2\x82ü\"": "\ufffd\ufffd\ufffdü",
	} {
		var s string
		o := jsonbody.Open([]byte(`{"a":` + text + `,"b":1}`))
		for o.Next() {
			if o.Key() == "a" {
				o.Exact(&s)
			}
		}

		if o.Err() != nil || s != want {
			t.Errorf("%.40s is read as %.40q, %v; want %.40q", text, s, o.Err(), want)
		}

		o.Close()
	}
}

// TestNested checks that Next ends with a nested object and then continues with the outer one, that
// a nested key may occur twice, and that an error in a nested object ends both.
func TestNested(t *testing.T) {
	for text, want := range map[string]string{
		`{"a":{"x":1,"y":{"z":2},"x":3},"b":4}`: "a( x=1 y x=3 ) b=4 ",
		`{"a":{},"b":{"x":"t"}}`:                "a( ) b( x ) ",
		`{"a":[{"x":1}],"b":1e3}`:               "a b=1e3 ",
		`{"a":{"x":1},"a":2}`:                   "a( x=1 ) error",
		`{"a":{"x":1,},"b":2}`:                  "a( x=1 ) error",
		`{"a":{"x":1`:                           "a( x=1 ) error",
	} {
		var got strings.Builder
		o := jsonbody.Open([]byte(text))
		for o.Next() {
			got.WriteString(o.Key())

			if o.Enter() {
				got.WriteString("( ")

				for o.Next() {
					got.WriteString(o.Key())

					if number := o.Number(); number != "" {
						got.WriteString("=" + number)
					}

					got.WriteString(" ")
				}

				got.WriteString(")")
			} else if number := o.Number(); number != "" {
				got.WriteString("=" + number)
			}

			got.WriteString(" ")
		}

		if o.Err() != nil {
			got.WriteString("error")
		}

		o.Close()

		testkit.Equal(t, got.String(), want, "%s is read as", text)
	}
}

// TestRaw checks that a value is returned as it was sent.
func TestRaw(t *testing.T) {
	o := jsonbody.Open([]byte(`{"a": {"b": [1, 2]} ,"c":"\u0041"}`))
	defer o.Close()

	for _, want := range []string{`{"b": [1, 2]}`, `"\u0041"`} {
		if !o.Next() {
			t.Fatal("a member is missing")
		}
		if got := o.Raw(); got != want {
			t.Errorf("%s is read as %s, want %s", o.Key(), got, want)
		}
	}

	if o.Next() || o.Err() != nil {
		t.Errorf("after the last member: %v", o.Err())
	}
}

func FuzzObject(f *testing.F) {
	f.Add(`{"a":"x","b":[1,{"c":null}]}`)
	f.Add("{\"a\":\"\xff\"}")
	f.Fuzz(func(t *testing.T, b string) {
		texts, err := read(b)
		if err != nil {
			return
		}
		if !json.Valid([]byte(b)) {
			t.Errorf("%q is not JSON", b)
		}

		for _, s := range texts {
			if len([]rune(s)) > 5 {
				t.Errorf("%q: %q exceeds the limit", b, s)
			}
		}
	})
}
