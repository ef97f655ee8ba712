package importer_test

import (
	"math/rand/v2"
	"strings"
	"testing"
	"unicode"

	"github.com/tallygate/tallygate/cmd/tallygate/importer"
	"github.com/tallygate/tallygate/db/model"
	"github.com/tallygate/tallygate/tools/testkit"
)

// TestEventNames checks that spellings of a Latin name merge, and that other names stay apart.
func TestEventNames(t *testing.T) {
	for name, want := range map[string]string{
		"Sign up": "sign_up", "SIGN UP!": "sign_up", "sign_up": "sign_up", "  Sign -- up": "sign_--_up", "sign-up": "sign-up",
		"click: Download PDF": "click_download_pdf", "video.play": "video_play", "(other)": "other", strings.Repeat("a", 48): strings.Repeat("a", 48),
	} {
		if got, ok := importer.EventName(name); got != want || !ok {
			t.Errorf("the event %q is %q, %v, want %q", name, got, ok, want)
		}
	}

	long := strings.Repeat("newsletter ", 10)
	seen := make(map[string]string)
	for _, name := range []string{
		"Регистрация", "Покупка", "登録", "购买", "Überweisung", "berweisung", "Café", "caf", "Café menu", "C", "C++", "C#", "C＋＋",
		"50%", "50", "🎉", "🎊", "!!!", "???", "...", "xn--80a", long + "a", long + "b", strings.Repeat("я", 60), strings.Repeat("я", 61),
		strings.Repeat("a", 48), strings.Repeat("a", 49),
	} {
		as, _ := importer.EventName(name)
		if other, twice := seen[as]; twice {
			t.Errorf("%q and %q are both %q", name, other, as)
		}
		if seen[as] = name; !model.IsEventName(as) {
			t.Errorf("%q becomes %q", name, as)
		}
	}
	if got, ok := importer.EventName("Регистрация"); got != "xn--80affnb7bdhj6b9f" || ok {
		t.Errorf("the encoded name is %q, %v", got, ok)
	}
}

// spelling is a name without case and punctuation, in another way than the importer: what may
// merge.
func spelling(name string) string {
	return strings.Join(strings.FieldsFunc(strings.ToLower(name), func(r rune) bool {
		return r != '-' && !strings.ContainsRune("#%&*?@", r) && (r == '>' || r == '|' || unicode.IsPunct(r) || unicode.IsSpace(r) || unicode.IsControl(r))
	}), "_")
}

// FuzzEventNames checks that names have the form of event names, that each name becomes the same
// one each time, and that only spellings of one name merge.
func FuzzEventNames(f *testing.F) {
	for _, pair := range [][2]string{
		{"Регистрация", "Покупка"}, {"C++", "C#"}, {"Sign up", "sign_up!"}, {"!!!", "???"}, {"", "_"}, {"xn--80a", "я"},
		{strings.Repeat("a", 60), strings.Repeat("a", 61)}, {"event", "!"}, {"é", "e\u0301"}, {"K", "\u212a"}, {"＋", "+"},
	} {
		f.Add(pair[0], pair[1])
	}
	f.Fuzz(checkNames)
}

// TestRandomNames is FuzzEventNames with random names of few characters, which are often alike.
func TestRandomNames(t *testing.T) {
	letters := []rune("aAb1-_ :!?+#＋éяЯ登🎉\u0301")
	r := rand.New(rand.NewPCG(1, 2))
	random := func() string {
		var name []rune
		for range 1 + r.IntN(4) {
			name = append(name, letters[r.IntN(len(letters))])
		}
		return strings.Repeat(string(name), 1+r.IntN(30)*r.IntN(2))
	}
	for range 100_000 {
		checkNames(t, random(), random())
	}
}

func checkNames(t *testing.T, a, b string) {
	t.Helper()
	a, b = strings.ToValidUTF8(a, "?"), strings.ToValidUTF8(b, "?")
	asA, okA := importer.EventName(a)
	asB, _ := importer.EventName(b)
	if !model.IsEventName(asA) || !model.IsEventName(asB) {
		t.Errorf("%q and %q become %q and %q", a, b, asA, asB)
	}
	if again, _ := importer.EventName(strings.Clone(a)); again != asA {
		t.Errorf("%q is %q and %q", a, asA, again)
	}
	one, other := spelling(a), spelling(b)
	lowerA, lowerB := strings.ToLower(a), strings.ToLower(b)
	if one != "" && other != "" && (one == other) != (asA == asB) || one+other == "" && asA == asB && lowerA != lowerB {
		t.Errorf("%q and %q become %q and %q", a, b, asA, asB)
	}
	if again, ok := importer.EventName(asA); okA && (!ok || again != asA) {
		t.Errorf("%q becomes %q, and that %q", a, asA, again)
	}
}

// TestLongTexts checks that the cut of texts does not merge them.
func TestLongTexts(t *testing.T) {
	long := strings.Repeat("ä", model.MaxFilterText)
	testkit.Equal(t, importer.Bounded(long), long, "a text at the limit becomes")
	a, b := importer.Bounded(long+"a"), importer.Bounded(long+"b")
	if a == b || a != importer.Bounded(long+"a") || !model.IsReportText(a) {
		t.Errorf("longer texts become %q and %q", a, b)
	}
}
