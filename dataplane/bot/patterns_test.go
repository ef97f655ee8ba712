package bot

import (
	"regexp"
	"slices"
	"strings"
	"testing"
)

// list.match must have the same result as the expressions one after the other.
func TestMatchEqualsTheExpressionsOneByOne(t *testing.T) {
	var expressions []string
	for _, p := range lines(publicList) {
		if instead, ok := amendments[p]; ok {
			p = instead
		}
		if p != "" {
			expressions = append(expressions, p)
		}
	}

	for _, p := range lines(ownList) {
		expressions = append(expressions, "(?i)"+p)
	}

	// These are the equivalent of endsWordBot.
	expressions = append(expressions, `(?i)(^|[^u]|(^|[^c])u|[a-z]cu)bots?([^a-z]|$)`)

	var compiled []*regexp.Regexp
	for _, p := range expressions {
		compiled = append(compiled, regexp.MustCompile(p))
	}

	texts := []string{
		"", "bo", "bot", "BOT", "cubot", "CUBOT_", "a CUBOT", "focubot", "bots", "botso", "robotics", "bot2", "xubot",
		"ubot", "aCUBOTS bots", "Sogou web spider", "ſpider", "wordpress", "WGET", "wGet ",
	}

	// The expressions themselves are texts that nearly match. Each text costs a match with every
	// expression, so that one in 20 must do.
	for i, p := range expressions {
		if i%20 == 0 {
			texts = append(texts, strings.NewReplacer(`\`, "", "(?i)", "", "^", "").Replace(p), strings.ToUpper(p))
		}
	}

	for _, text := range texts {
		want := slices.ContainsFunc(compiled, func(re *regexp.Regexp) bool { return re.MatchString(text) })

		// The list ignores the case of ASCII letters only.
		if got := patterns().match(text); got != want && text != "ſpider" {
			t.Errorf("match(%q) = %v, want %v", text, got, want)
		}
	}
}

func TestLiterals(t *testing.T) {
	tests := []struct {
		pattern string
		want    []string
		decides bool
	}{
		{`Googlebot\/`, []string{"Googlebot/"}, true},
		{`^curl`, []string{"curl"}, false},
		{`[wW]get`, []string{"get"}, false},
		{`(sistrix|SISTRIX) [cC]rawler`, []string{"sistrix", "SISTRIX"}, false},
		{`Netumo|gotosocial`, []string{"Netumo", "gotosocial"}, false},
		{`Spider[\s\S]*spider\.com`, []string{"spider.com"}, false},
		{`(?i)HeadLess`, []string{"headless"}, true},
		{`(?i)\bphp[ /]?[0-9]`, []string{"php"}, false},
		{`(abcd)+x?`, []string{"abcd"}, false},
	}
	for _, tt := range tests {
		var got []string
		decides := true
		for _, l := range literals(tt.pattern) {
			got = append(got, l.text)
			decides = decides && l.check == nil
		}

		if !slices.Equal(got, tt.want) || decides != tt.decides {
			t.Errorf("literals(%q) = %q, deciding %v; want %q, %v", tt.pattern, got, decides, tt.want, tt.decides)
		}
	}
}

func TestAPatternWithoutLiteralPanics(t *testing.T) {
	for _, p := range []string{`[a-z]+`, `ab`, `abc|[0-9]`, `(abc)*`} {
		func() {
			defer func() {
				if recover() == nil {
					t.Errorf("literals(%q) did not panic", p)
				}
			}()
			literals(p)
		}()
	}
}

// A text that is made to be slow takes little time, and does not count as a browser's.
func TestManyNearMisses(t *testing.T) {
	cubots := strings.Repeat("CUBOT ", maxChecks)
	if patterns().match(cubots) {
		t.Errorf("%d near misses are taken for a match", maxChecks)
	}
	if !patterns().match(cubots + "CUBOT") {
		t.Errorf("%d near misses are not taken for a match", maxChecks+1)
	}
}

func TestLists(t *testing.T) {
	public, own := lines(publicList), lines(ownList)
	if len(public) < 1000 || len(own) < 100 {
		t.Errorf("%d public and %d own patterns: something is missing", len(public), len(own))
	}

	for name, list := range map[string][]string{"patterns.txt": public, "extra.txt": own} {
		sorted := slices.Sorted(slices.Values(list))
		for i := range sorted[1:] {
			if sorted[i] == sorted[i+1] {
				t.Errorf("%s: %q is there twice", name, sorted[i])
			}
		}
	}

	for p := range amendments {
		if !slices.Contains(public, p) {
			t.Errorf("amendment of %q, which the public list no longer has", p)
		}
	}

	for _, p := range own {
		if p != strings.ToLower(p) {
			t.Errorf("extra.txt: %q: write lower case, any case is matched", p)
		}
	}
}

func BenchmarkLoad(b *testing.B) {
	for b.Loop() {
		load()
	}
}
