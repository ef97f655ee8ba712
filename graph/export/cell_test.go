package export

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"reflect"
	"strings"
	"testing"
	"unicode"

	"github.com/tallygate/tallygate/db/model"
	"github.com/tallygate/tallygate/tools/testkit"
)

// cells is testdata/cells.json, which the console's unit tests read too.
type cells struct {
	Cases []struct{ Name, Text, Cell string }

	// Hidden are inclusive ranges of code points that spreadsheets skip at the start of a cell.
	Hidden []string

	// All describes all texts of 1 to Length characters of Alphabet, by the hash of their cells.
	All struct {
		Alphabet []string
		Length   int
		SHA256   string
	}
}

func readCells(t testing.TB) *cells {
	t.Helper()

	text, err := os.ReadFile("testdata/cells.json")
	testkit.NoError(t, err)

	var c cells
	if err := json.Unmarshal(text, &c); err != nil || len(c.Cases) == 0 || len(c.Hidden) == 0 || len(c.All.Alphabet) == 0 {
		t.Fatalf("testdata/cells.json: %+v, %v", c, err)
	}
	return &c
}

func TestSharedCells(t *testing.T) {
	t.Parallel()
	for _, test := range readCells(t).Cases {
		testkit.Equal(t, cell(test.Text), test.Cell, "%s: %q", test.Name, test.Text)
	}
}

// TestHiddenCharacters: a formula is found behind each character that spreadsheets skip.
func TestHiddenCharacters(t *testing.T) {
	t.Parallel()
	for _, span := range readCells(t).Hidden {
		var first, last rune
		if _, err := fmt.Sscanf(span, "%X-%X", &first, &last); err != nil {
			t.Fatalf("%s: %v", span, err)
		}

		for r := first; r <= last; r++ {
			text := "x;" + string(r) + "=1"
			want := "x;'" + string(r) + "=1"

			// A separator is followed by the apostrophe.
			if strings.ContainsRune(cuts, r) {
				want = "x;" + string(r) + "'=1"
			}

			testkit.Equal(t, cell(text), want, "%q", text)
		}
	}
}

// TestAllShortCells compares the cells of all short texts with the console's, by one hash.
func TestAllShortCells(t *testing.T) {
	t.Parallel()
	all := readCells(t).All
	hash := sha256.New()

	texts := []string{""}
	for range all.Length {
		var longer []string
		for _, text := range texts {
			for _, sign := range all.Alphabet {
				longer = append(longer, text+sign)
			}
		}

		texts = longer
		for _, text := range texts {
			io.WriteString(hash, cell(text)+"\x00")
		}
	}

	if got := hex.EncodeToString(hash.Sum(nil)); got != all.SHA256 {
		t.Errorf("the hash is %s, want %s: the console's csv.ts and testdata/cells.json must follow a change of the rule", got, all.SHA256)
	}
}

func TestCells(t *testing.T) {
	t.Parallel()
	for _, test := range []struct {
		value any
		want  string
	}{
		{"=1", "'=1"},
		{int64(-5), "-5"},
		{model.Money(-1_500_000), "-1.5"},
		{true, "true"},
		{nil, ""},
		{json.RawMessage(`{"a":"b;c","n":-1}`), `{"a":"b;c","n":-1}`},
		{json.RawMessage(`{"a":"b;=1;c"}`), `{"a":"b\u003b=1\u003bc"}`},
	} {
		testkit.Equal(t, cell(test.value), test.want, "%q", test.value)
	}
}

// FuzzCells: at whichever character a program cuts the cell, no segment begins with a formula, and
// only apostrophes were added.
func FuzzCells(f *testing.F) {
	for _, test := range readCells(f).Cases {
		f.Add(test.Text)
	}
	for _, seed := range []string{";;\t=", "a\r\n\" +1", ";'", "\u202e;-1", "\xff;=\xff", "x;\"@"} {
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

		testkit.Equal(t, strings.ReplaceAll(got, "'", ""), strings.ReplaceAll(text, "'", ""), "%q became %q", text, got)

		object, err := json.Marshal(map[string]string{"a": text})
		testkit.NoError(t, err)

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
