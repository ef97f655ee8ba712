package model_test

import (
	"fmt"
	"math/rand/v2"
	"regexp"
	"slices"
	"strings"
	"testing"
	"unicode"

	"github.com/tallygate/tallygate/db/model"
	"github.com/tallygate/tallygate/tools/testkit"
)

// expressionMatcher is PatternMatcher as a regular expression, as it was before.
func expressionMatcher(patterns ...string) func(text string) bool {
	expressions := make([]string, len(patterns))
	for i, pattern := range patterns {
		var b strings.Builder
		for pattern != "" {
			literal, _, _ := strings.Cut(pattern, "*")
			b.WriteString(regexp.QuoteMeta(literal))
			pattern = pattern[len(literal):]

			rest := strings.TrimLeft(pattern, "*")
			switch len(pattern) - len(rest) {
			case 0:
			case 1:
				b.WriteString("[^/]*")
			default:
				b.WriteString(".*")
			}
			pattern = rest
		}
		expressions[i] = b.String()
	}
	return regexp.MustCompile(`(?s)\A(?:` + strings.Join(expressions, "|") + `)\z`).MatchString
}

// tableMatch is a matcher by dynamic programming: reached[n] is whether the pattern so far matches
// the first n bytes of the text.
func tableMatch(pattern, text string) bool {
	reached := make([]bool, len(text)+1)
	reached[0] = true

	for pattern != "" {
		rest := strings.TrimLeft(pattern, "*")
		asterisks := len(pattern) - len(rest)

		if asterisks == 0 {
			for n := len(text); n > 0; n-- {
				reached[n] = reached[n-1] && text[n-1] == pattern[0]
			}
			reached[0] = false
			pattern = pattern[1:]
			continue
		}

		for n := range len(text) {
			reached[n+1] = reached[n+1] || reached[n] && (asterisks > 1 || text[n] != '/')
		}
		pattern = rest
	}

	return reached[len(text)]
}

// words returns all texts of an alphabet up to a length.
func words(alphabet string, longest int) []string {
	all := []string{""}
	for from := 0; len(all[from]) < longest; from++ {
		for _, letter := range alphabet {
			all = append(all, all[from]+string(letter))
		}
	}
	return all
}

// TestAllShortPatterns compares every pattern of up to 6 characters with every text of up to 7.
// With two letters the limits are 4 and 6.
func TestAllShortPatterns(t *testing.T) {
	for _, size := range []struct {
		alphabet      string
		pattern, text int
	}{{"a/", 6, 7}, {"ab/", 4, 6}, {"aé/", 4, 5}} {
		texts := words(size.alphabet, size.text)
		for _, pattern := range words(size.alphabet+"*", size.pattern) {
			match := model.PatternMatcher(pattern)
			for _, text := range texts {
				testkit.Require(t, match(text), tableMatch(pattern, text), "%q matches %q", pattern, text)
			}
		}
	}
}

// TestLongPatterns compares patterns that need several words, and several patterns at once, with
// both other matchers.
func TestLongPatterns(t *testing.T) {
	random := rand.New(rand.NewPCG(1, 2))
	text := func(alphabet string, length int) string {
		letters := []rune(alphabet)
		word := make([]rune, length)
		for i := range word {
			word[i] = letters[random.IntN(len(letters))]
		}
		return string(word)
	}

	matched := 0
	for range 500 {
		patterns := make([]string, random.IntN(6)+1)
		for i := range patterns {
			patterns[i] = text("aab*/", random.IntN(6)) + strings.Repeat(text("aaab/ж", 6), random.IntN(30)) + text("aab**/ж", random.IntN(60))
		}
		match, expression := model.PatternMatcher(patterns...), expressionMatcher(patterns...)

		for range 10 {
			// A pattern with texts in place of its wildcards matches often, but for one change.
			value := regexp.MustCompile(`\*+`).ReplaceAllStringFunc(patterns[random.IntN(len(patterns))],
				func(string) string { return text("aab/ж", random.IntN(8)) })
			if at := random.IntN(len(value) + 1); random.IntN(2) == 0 && at < len(value) && value[at] < 0x80 {
				value = value[:at] + text("ab/", 1) + value[at+1:]
			}

			got := match(value)
			want := slices.ContainsFunc(patterns, func(pattern string) bool { return tableMatch(pattern, value) })
			if got != want || got != expression(value) {
				t.Fatalf("%q match %q: %t", patterns, value, got)
			}
			if got {
				matched++
			}
		}
	}
	if matched < 500 || matched > 4_500 {
		t.Errorf("%d of 5,000 texts match: the test proves little", matched)
	}
}

// FuzzPatterns compares the matcher with a table and with the regular expression that it replaced.
func FuzzPatterns(f *testing.F) {
	for _, seed := range [][3]string{
		{"/a/*", "/b", "/a/b"}, {"**/x", "", "a/b/x"}, {"***", "*", ""}, {"*\\E*", "a", "a\\Eb"}, {"\xff", "\xff", "\xff"},
		{"**a*b/**", "*é*é", "xa/ab/"}, {strings.Repeat("*ab/", 30), "*/*", strings.Repeat("aab/", 30)},
		{"*\ufffd*", "x", "\xff"},
	} {
		f.Add(seed[0], seed[1], seed[2])
	}

	f.Fuzz(func(t *testing.T, one, two, text string) {
		match := model.PatternMatcher(one, two)(text) // patterns that are not valid must not panic either
		if len(one)+len(two) > 500 || !model.IsStorable(one) || !model.IsStorable(two) {
			return
		}

		if want := expressionMatcher(one, two)(text); match != want {
			t.Errorf("%q and %q match %q: %t, as an expression %t", one, two, text, match, want)
		}
		if want := tableMatch(one, text) || tableMatch(two, text); match != want && model.IsStorable(text) {
			t.Errorf("%q and %q match %q: %t, by the table %t", one, two, text, match, want)
		}
	})
}

// containsLower is CONTAINS as it was before.
func containsLower(values []string, text string) bool {
	text = strings.ToLower(text)
	return slices.ContainsFunc(values, func(value string) bool { return strings.Contains(text, strings.ToLower(value)) })
}

func contains(values ...string) func(string) bool {
	filter := model.ReportFilter{Dimension: "PAGE", Operator: "CONTAINS", Values: values}
	return filter.Matcher()
}

// TestContainsIgnoresCase checks for each character of Unicode that it is found in either case, and
// by no other character.
func TestContainsIgnoresCase(t *testing.T) {
	cased := map[rune]bool{'İ': true, '\u212a': true, 'ẞ': true, 'ǅ': true}
	for r := rune(1); r <= unicode.MaxRune; r++ {
		if unicode.ToLower(r) != r || unicode.ToUpper(r) != r || unicode.ToTitle(r) != r {
			cased[r] = true
		}
	}
	if len(cased) < 2_500 {
		t.Fatalf("%d characters have a case", len(cased))
	}

	for r := range cased {
		for _, value := range []rune{r, unicode.ToLower(r), unicode.ToUpper(r), unicode.ToTitle(r), unicode.SimpleFold(r)} {
			text := "x" + string(r) + "y"
			if got, want := contains(string(value))(text), containsLower([]string{string(value)}, text); got != want {
				t.Errorf("%q contains %q: %t", text, value, got)
			}
		}
	}
}

// FuzzContains compares CONTAINS with a search in lower-case copies.
func FuzzContains(f *testing.F) {
	for _, seed := range [][3]string{
		{"LOG", "x", "/Blog/1"}, {"straße", "ẞ", "/STRASSE"}, {"i", "K", "İ\u212a"}, {"*", "a*", "a*b"},
		{strings.Repeat("aA", 50), "é", strings.Repeat("a", 200) + "É"}, {"\ufffd", "Ⱥ", "\xffⱥ"},
	} {
		f.Add(seed[0], seed[1], seed[2])
	}

	f.Fuzz(func(t *testing.T, one, two, text string) {
		if one == "" || two == "" || !model.IsStorable(one) || !model.IsStorable(two) {
			return
		}
		if got, want := contains(one, two)(text), containsLower([]string{one, two}, text); got != want {
			t.Errorf("%q contains %q or %q: %t", text, one, two, got)
		}
	})
}

// TestMatchersAllocateNothing checks the longest search that a report can have, and usual searches.
func TestMatchersAllocateNothing(t *testing.T) {
	for name, match := range map[string]func(string) bool{
		"exact":    model.PatternMatcher("/a", "/b"),
		"usual":    model.PatternMatcher("/blog/*", "/shop/**", "/*/shop/**"),
		"longest":  model.PatternMatcher("*" + strings.Repeat("ä", model.MaxReportSearch-1) + "*"),
		"contains": contains(strings.Repeat("ä", model.MaxReportSearch-1)),
	} {
		for _, text := range []string{"/blog/1", strings.Repeat("Ä", 2_048), strings.Repeat("a", 2_048)} {
			testkit.Equal(t, testing.AllocsPerRun(10, func() { match(text) }), 0, "%s: allocations for %.20s", name, text)
		}
	}
}

// TestReportSearch checks what reports of owners have, and the first that is too much.
func TestReportSearch(t *testing.T) {
	page := func(operator model.ReportOperator, values ...string) model.ReportFilter {
		return model.ReportFilter{Dimension: "PAGE", Operator: operator, Values: values}
	}
	numbered := func(n int, format string) []string {
		list := make([]string, n)
		for i := range list {
			list[i] = fmt.Sprintf(format, i+10)
		}
		return list
	}
	filters := func(n int, filter model.ReportFilter) []model.ReportFilter {
		return slices.Repeat([]model.ReportFilter{filter}, n)
	}
	steps := func(n int, page string) []model.FunnelStep { return slices.Repeat([]model.FunnelStep{{Page: page}}, n) }
	long := strings.Repeat("/long", 400)

	for name, test := range map[string]struct {
		filters []model.ReportFilter
		steps   []model.FunnelStep
		problem string
	}{
		"50 products":            {filters(1, page("MATCHES", numbered(50, "/product-%d/*/reviews")...)), steps(8, "/shop/**"), ""},
		"two lists of 50":        {filters(2, page("MATCHES_NOT", numbered(50, "/product-%d/**")...)), nil, ""},
		"50 in any language":     {filters(1, page("MATCHES", numbered(50, "/*/product-%d/**")...)), nil, ""},
		"50 names":               {filters(1, page("CONTAINS", numbered(50, "name of 19 chars %d")...)), nil, ""},
		"10 filters of 5 words":  {filters(10, page("CONTAINS_NOT", "shop", "cart", "checkout", "thanks", "account")), nil, ""},
		"two funnels":            {nil, steps(16, "**/checkout/**"), ""},
		"most values of IS":      {filters(10, page("IS", numbered(50, long+"%d")...)), nil, ""},
		"long exact pages":       {nil, steps(80, long), ""},
		"long pages, a wildcard": {nil, steps(80, long+"**"), ""},
		"asterisks in CONTAINS":  {filters(1, page("CONTAINS", strings.Repeat("*", 1_023))), nil, ""},
		"most wildcards":         {filters(1, page("MATCHES", strings.Repeat("*a", 50))), steps(1, strings.Repeat("*a", 50)), ""},
		"a run is one wildcard":  {filters(1, page("MATCHES", strings.Repeat("*", 2_048))), nil, ""},
		"most characters":        {filters(1, page("MATCHES", "*"+strings.Repeat("ä", 1_023)+"**")), nil, ""},

		"101 wildcards":     {filters(1, page("MATCHES", strings.Repeat("*a", 50))), steps(1, strings.Repeat("*a", 51)), "100 wildcards"},
		"1,025 characters":  {filters(1, page("MATCHES", "*"+strings.Repeat("ä", 1_024)+"**")), nil, "1024 characters"},
		"in all":            {filters(1, page("CONTAINS", strings.Repeat("a", 63))), steps(1, "*"+strings.Repeat("b", 960)+"*"), "1024 characters"},
		"1,024 to contain":  {filters(1, page("CONTAINS_NOT", strings.Repeat("a", 1_024))), nil, "1024 characters"},
		"17 small searches": {filters(1, page("CONTAINS", "a")), steps(16, "*a*"), "1024 characters"},
	} {
		err := model.CheckReportSearch("f", "invalid_filter", test.filters, test.steps)
		if test.problem == "" && err != nil || test.problem != "" && !strings.Contains(fmt.Sprint(err), test.problem) {
			t.Errorf("%s: %v", name, err)
		}
	}

	// The example of docs/owner/reports.md leaves 320 characters.
	example := filters(1, page("MATCHES", numbered(50, "/*/product-%d/**")...))
	for length, ok := range map[int]bool{319: true, 320: false} {
		if err := model.CheckReportSearch("f", "c", append(example, page("CONTAINS", strings.Repeat("a", length))), nil); (err == nil) != ok {
			t.Errorf("with %d characters more: %v", length, err)
		}
	}

	hostile := strings.Repeat("*a", 101)
	if err := model.CheckReportFilters("filters", filters(1, page("MATCHES", hostile))); err == nil {
		t.Error("a list of filters can exceed a report")
	}
	if err := model.CheckFunnelSteps("steps", steps(2, hostile)); err == nil {
		t.Error("a funnel can exceed a report")
	}
}

// paths returns 10,000 paths of a usual site.
func paths() []string {
	random := rand.New(rand.NewPCG(3, 4))
	list := make([]string, 10_000)
	for i := range list {
		n := random.IntN(10_000)
		list[i] = []string{
			fmt.Sprintf("/blog/a-post-with-a-usual-title-%d", n), fmt.Sprintf("/shop/category-%d/product-%d", n%50, n),
			fmt.Sprintf("/product-%d/colour-%d/reviews", n%200, n), fmt.Sprintf("/de/docs/chapter-%d/section-%d", n%9, n),
			fmt.Sprintf("/über-uns/team/mitglied-%d", n), fmt.Sprintf("/account/orders/%d", n),
		}[random.IntN(6)]
	}
	return list
}

// compareMatchers measures two ways to match the same texts, for one pass over all of them.
func compareMatchers(b *testing.B, name string, texts []string, ways map[string]func(string) bool) {
	for way, match := range ways {
		b.Run(name+"/"+way, func(b *testing.B) {
			for b.Loop() {
				for _, text := range texts {
					match(text)
				}
			}
			b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(b.N*len(texts)), "ns/text")
		})
	}
}

func BenchmarkPatterns(b *testing.B) {
	texts := paths()
	several := func(format string) []string {
		list := make([]string, 50)
		for i := range list {
			list[i] = fmt.Sprintf(format, i)
		}
		return list
	}

	for _, test := range []struct {
		name     string
		patterns []string
	}{
		{"one path", []string{"/account/orders/17"}}, {"blog", []string{"/blog/*"}}, {"shop", []string{"/shop/**"}},
		{"inner", []string{"/shop/*/product-1*"}}, {"anywhere", []string{"**/section-5**"}},
		{"50 products", several("/product-%d/*/reviews")}, {"50 sections", several("/shop/category-%d/**")},
		{"50 with two", several("/*/chapter-%d/*")},
	} {
		compareMatchers(b, test.name, texts, map[string]func(string) bool{
			"matcher": model.PatternMatcher(test.patterns...), "expression": expressionMatcher(test.patterns...),
		})
	}

	for name, values := range map[string][]string{"contains": {"section"}, "50 to contain": several("Product-%d/")} {
		compareMatchers(b, name, texts, map[string]func(string) bool{
			"matcher": contains(values...), "copies": func(text string) bool { return containsLower(values, text) },
		})
	}
}

// BenchmarkHostile measures the most expensive text for the most expensive filters of a report: all
// of one kind that CheckReportSearch accepts.
func BenchmarkHostile(b *testing.B) {
	short, long := strings.Repeat("a", 2_048), strings.Repeat("Ж", 2_048)

	asterisks := strings.Repeat("*a", 60)
	compareMatchers(b, "many asterisks", []string{short}, map[string]func(string) bool{
		"matcher": model.PatternMatcher("/"+asterisks+"b", asterisks+"b"), "expression": expressionMatcher("/"+asterisks+"b", asterisks+"b"),
	})

	compareMatchers(b, "one search of 1,024", []string{short}, map[string]func(string) bool{
		"matcher": model.PatternMatcher("*" + strings.Repeat("a", 1_022) + "*b"),
	})
	compareMatchers(b, "one of 16 searches", []string{short}, map[string]func(string) bool{
		"matcher": model.PatternMatcher("*" + strings.Repeat("a", 40) + "*b"),
	})
	// Both ends match, and the slash is found last.
	slash := strings.Repeat("a", 1_747) + "/" + strings.Repeat("a", 300)
	compareMatchers(b, "100 wildcards", []string{slash}, map[string]func(string) bool{
		"matcher": model.PatternMatcher(slices.Repeat([]string{strings.Repeat("a", 300) + "*" + strings.Repeat("a", 300)}, 100)...),
	})
	compareMatchers(b, "one of 16 to contain", []string{long}, map[string]func(string) bool{
		"matcher": contains(strings.Repeat("ж", 50) + "b"),
		"copies":  func(text string) bool { return containsLower([]string{strings.Repeat("ж", 50) + "b"}, text) },
	})
}
