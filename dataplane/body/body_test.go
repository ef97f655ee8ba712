package body_test

import (
	"encoding/json"
	"io"
	"net/http/httptest"
	"strings"
	"testing"
	"testing/iotest"

	"github.com/go-json-experiment/json/jsontext"

	"github.com/tallygate/tallygate/dataplane/body"
)

func TestRead(t *testing.T) {
	for size, want := range map[int]error{0: nil, 1: nil, body.Max: nil, body.Max + 1: body.ErrTooLarge, 100 * body.Max: body.ErrTooLarge} {
		for _, chunked := range []bool{false, true} {
			r := httptest.NewRequest("POST", "/", strings.NewReader(strings.Repeat("x", size)))

			if chunked {
				r.ContentLength = -1
			}

			b, err := body.Read(r)
			if err != want {
				t.Errorf("%d bytes, chunked %v: %v, want %v", size, chunked, err, want)
			}
			if err == nil && b.Len() != size {
				t.Errorf("%d bytes read of %d", b.Len(), size)
			}
			if err == nil {
				body.Free(b)
			}
		}
	}

	if _, err := body.Read(httptest.NewRequest("POST", "/", iotest.ErrReader(iotest.ErrTimeout))); err != body.ErrTooLarge {
		t.Errorf("a body that breaks off: %v", err)
	}
}

// TestReadStart: of a body that is too large, its beginning can be used; of one that breaks off,
// nothing.
func TestReadStart(t *testing.T) {
	for size, want := range map[int]int{0: 0, 1: 1, body.Max: body.Max, body.Max + 1: body.Max, 100 * body.Max: body.Max} {
		for _, chunked := range []bool{false, true} {
			r := httptest.NewRequest("POST", "/", strings.NewReader(strings.Repeat("x", size)))

			if chunked {
				r.ContentLength = -1
			}

			b, err := body.ReadStart(r)
			if b.Len() != want || (err == body.ErrTooLarge) != (size > body.Max) {
				t.Errorf("%d bytes, chunked %v: %d bytes, %v; want %d", size, chunked, b.Len(), err, want)
			}

			body.Free(b)
		}
	}

	broken := io.MultiReader(strings.NewReader("{"), iotest.ErrReader(iotest.ErrTimeout))
	b, err := body.ReadStart(httptest.NewRequest("POST", "/", broken))
	if b.Len() != 0 || err != body.ErrTooLarge {
		t.Errorf("a body that breaks off: %d bytes, %v", b.Len(), err)
	}

	body.Free(b)
}

// read reads the texts of an object.
func read(b string) (map[string]string, error) {
	texts := make(map[string]string)
	err := body.Object([]byte(b), func(d *jsontext.Decoder, key string) error {
		var s string
		err := body.Text(d, &s, 5)
		texts[key] = s
		return err
	})

	return texts, err
}

func TestObject(t *testing.T) {
	for _, test := range []struct {
		body, want string // want is the texts as JSON, or empty for ErrJSON
	}{
		{`{}`, `{}`}, {" \n{}\t", `{}`}, {`{"a":"x","A":"y"}`, `{"A":"y","a":"x"}`},
		{`{"a":null,"b":1,"c":[{"d":"e"}],"f":{"a":"x"},"g":true}`, `{"a":"","b":"","c":"","f":"","g":""}`},
		{`{"a":"` + "\\u0000\\n" + `x"}`, `{"a":"x"}`}, {`{"a":"123456"}`, `{"a":"12345"}`}, {"{\"a\":\"\xff\"}", `{"a":"�"}`}, {`{"a":"\ud800"}`, `{"a":"�"}`},
		{``, ``}, {`null`, ``}, {`[]`, ``}, {`"a"`, ``}, {`{"a":"x"`, ``}, {`{"a":}`, ``}, {`{}{}`, ``}, {`{} x`, ``}, {`{"a":"x","a":"y"}`, ``},
		{`{"a":"x","b":{"c":1,"c":2},"d":"y"}`, `{"a":"x","b":"","d":"y"}`}, {`{"a":"x","\u0061":"y"}`, ``},
		{"\ufeff{}", ``}, {`{a:1}`, ``}, {`{"a":` + strings.Repeat("[", 20_000), ``},
	} {
		texts, err := read(test.body)
		got, _ := json.Marshal(texts)
		if test.want == "" && err != body.ErrJSON || test.want != "" && (err != nil || string(got) != test.want) {
			t.Errorf("%.40q: %s, %v; want %s", test.body, got, err, test.want)
		}
	}
}

// TestExact: a text that is compared stays as it was sent.
func TestExact(t *testing.T) {
	for text, want := range map[string]string{
		`"a"`: "a", `"a\u0000\nb "`: "a\x00\nb ", `"` + strings.Repeat("x", 8_000) + `"`: strings.Repeat("x", 8_000), `""`: "", `1`: "", `{"b":"c"}`: "", `null`: "",
	} {
		var s string
		err := body.Object([]byte(`{"a":`+text+`}`), func(d *jsontext.Decoder, _ string) error { return body.Exact(d, &s) })
		if err != nil || s != want {
			t.Errorf("%.40s is read as %.40q, %v; want %.40q", text, s, err, want)
		}
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
			t.Errorf("%q is no JSON", b)
		}

		for _, s := range texts {
			if len([]rune(s)) > 5 {
				t.Errorf("%q: %q is longer than asked for", b, s)
			}
		}
	})
}
