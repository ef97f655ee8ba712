package export

import (
	"encoding/json"
	"reflect"
	"strings"
	"testing"
	"unicode"

	"github.com/tallygate/tallygate/db/model"
)

func TestCells(t *testing.T) {
	for _, test := range []struct {
		value any
		want  string
	}{
		{"", ""},
		{"/plain;a=1;b", "/plain;a=1;b"},
		{"a-b+c@d=e", "a-b+c@d=e"},
		{";", ";"},
		{"=1", "'=1"},
		{"+1", "'+1"},
		{"-1", "'-1"},
		{"@x", "'@x"},
		{"\tx", "'\tx"},
		{"\r=1", "'\r'=1"},
		{"\nx", "'\nx"},
		{` "=1`, `' "=1`},
		{"\u200b=1", "'\u200b=1"},
		{"＝1", "'＝1"},
		{`/x;=HYPERLINK("https://evil.example")`, `/x;'=HYPERLINK("https://evil.example")`},
		{`/x; "" @SUM(1)`, `/x;' "" @SUM(1)`},
		{";-1;+1;b;=2", ";'-1;'+1;b;'=2"},
		{"a\t=1\r\n+1", "a\t'=1\r\n'+1"},
		{"/ä;＋1", "/ä;'＋1"},
		{int64(-5), "-5"},
		{model.Money(-1_500_000), "-1.5"},
		{true, "true"},
		{nil, ""},
		{json.RawMessage(`{"a":"b;c","n":-1}`), `{"a":"b;c","n":-1}`},
		{json.RawMessage(`{"a":"b;=1;c"}`), `{"a":"b\u003b=1\u003bc"}`},
	} {
		if got := cell(test.value); got != test.want {
			t.Errorf("%q: %q, want %q", test.value, got, test.want)
		}
	}
}

// FuzzCells: at whichever character a program cuts the cell, no segment begins with a formula, and
// only apostrophes were added.
func FuzzCells(f *testing.F) {
	for _, seed := range []string{"", "/x;=1", "=1", ";;\t=", "a\r\n\" +1", "'=1", ";'", "\u202e;-1", "\xff;=\xff", "-", "x;\"@"} {
		f.Add(seed)
	}

	f.Fuzz(func(t *testing.T, text string) {
		got := cell(text)

		hidden := func(r rune) bool {
			return r == '"' || unicode.IsSpace(r) || unicode.In(r, unicode.Cc, unicode.Cf)
		}
		for _, part := range strings.FieldsFunc(got, func(r rune) bool { return strings.ContainsRune(";\t\r\n", r) }) {
			if begin := strings.TrimLeftFunc(part, hidden); begin != "" && strings.ContainsRune("=+-@＝＋－＠", []rune(begin)[0]) {
				t.Errorf("%q: the segment %q of %q is a formula", text, part, got)
			}
		}

		if strings.ReplaceAll(got, "'", "") != strings.ReplaceAll(text, "'", "") {
			t.Errorf("%q became %q", text, got)
		}

		object, err := json.Marshal(map[string]string{"a": text})
		if err != nil {
			t.Fatal(err)
		}

		shown := cell(json.RawMessage(object))
		for i, part := range strings.Split(shown, ";") {
			if begin := strings.TrimLeftFunc(part, hidden); i > 0 && begin != "" && strings.ContainsRune("=+-@＝＋－＠", []rune(begin)[0]) {
				t.Errorf("%q: the segment %q of %q is a formula", text, part, shown)
			}
		}

		var want, back map[string]string
		if json.Unmarshal(object, &want) != nil || json.Unmarshal([]byte(shown), &back) != nil || !reflect.DeepEqual(want, back) {
			t.Errorf("%s means %v, want %v", shown, back, want)
		}
	})
}
