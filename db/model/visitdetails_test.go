package model_test

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/tallygate/tallygate/db/model"
	"github.com/tallygate/tallygate/tools/testkit"
)

// TestParseExcludedPaths checks which lists of paths are stored, and the field and the code of
// others.
func TestParseExcludedPaths(t *testing.T) {
	many := make(model.List[string], model.MaxExcludedPaths+1)
	for i := range many {
		many[i] = fmt.Sprintf("/%d", i)
	}
	var wide model.List[string]
	for r := rune(0x100); len(wide) < 45; r += 0x100 {
		wide = append(wide, fmt.Sprintf("/*%s*", strings.Repeat(string(r), 20)))
	}
	long := "/" + strings.Repeat("a", model.MaxExcludedPath)

	for _, test := range []struct {
		name  string
		given model.List[string]
		want  string // in lines, or the error
	}{
		{"none", model.List[string]{}, ""},
		{"spaces, order, repetition", model.List[string]{" /b ", "/a/**", "/b"}, "/a/**\n/b"},
		{"other letters", model.List[string]{"/über/*"}, "/über/*"},
		{"the longest", model.List[string]{long[1:], long[:len(long)-1]}, "excludedPaths.0: invalid_path"},
		{"too long", model.List[string]{long}, "excludedPaths.0: invalid_path"},
		{"too long once it is encoded", model.List[string]{"/" + strings.Repeat("ü", 84)}, "excludedPaths.0: invalid_path"},
		{"no path", model.List[string]{"/", "admin"}, "excludedPaths.1: invalid_path"},
		{"empty", model.List[string]{""}, "excludedPaths.0: invalid_path"},
		{"query", model.List[string]{"/a?b"}, "excludedPaths.0: invalid_path"},
		{"two lines", model.List[string]{"/a\n/b"}, "excludedPaths.0: invalid_path"},
		{"NUL", model.List[string]{"/a\x00"}, "excludedPaths.0: invalid_path"},
		{"as many as possible", many[1:], strings.Join(slices.Sorted(slices.Values(many[1:])), "\n")},
		{"too many", many, "excludedPaths: too_many_paths"},
		{"too many characters once they are encoded", wide, "excludedPaths: invalid_path"},
		{"wildcards", model.List[string]{strings.Repeat("/a*", 101)}, "excludedPaths: invalid_path"},
	} {
		parsed, err := model.ParseExcludedPaths("excludedPaths", test.given)
		got := strings.Join(parsed, "\n")
		if err != nil {
			e, ok := model.Joined(err)[0].(*model.Error)
			if !ok || strings.Contains(e.Message, "report") {
				t.Errorf("%s: error %v", test.name, err)
				continue
			}
			got = e.Field + ": " + e.Code
		}
		testkit.Equal(t, got, test.want, "%s", test.name)
	}
}

// TestExcludedPaths checks that a path is found in the form that browsers send and in the form that
// people write.
func TestExcludedPaths(t *testing.T) {
	isExcluded := model.ExcludedPaths(model.List[string]{"/über/**", "/caf%C3%A9", "/a b", "/日*本*"})
	for path, want := range map[string]bool{
		"/%C3%BCber/uns": true, "/über/uns": true, "/caf%C3%A9": true, "/café": true, "/a%20b": true, "/a b": true,
		"/%E6%97%A5x%E6%9C%ACx": true, "/%c3%bcber/uns": true, "/caf%c3%a9": true, "/uber/uns": false, "/cafe": false, "/ab": false, "/": false,
	} {
		testkit.Equal(t, isExcluded(path), want, "%q", path)
	}
}

// TestParseCountries checks which codes are stored.
func TestParseCountries(t *testing.T) {
	parsed, err := model.ParseCountries("excludedCountries", model.List[string]{"de", " CH ", "DE"})
	if err != nil || !slices.Equal(parsed, model.List[string]{"CH", "DE"}) {
		t.Errorf("%v, error %v", parsed, err)
	}
	for _, wrong := range []string{"", "UK", "DEU", "D\nE"} {
		parsed, err := model.ParseCountries("excludedCountries", model.List[string]{"DE", wrong})
		if parsed != nil || err == nil {
			t.Errorf("%q: %v, error %v", wrong, parsed, err)
			continue
		}
		if e, ok := model.Joined(err)[0].(*model.Error); !ok || e.Field != "excludedCountries.1" || e.Code != "invalid_country" {
			t.Errorf("%q: error %v", wrong, err)
		}
	}
}
