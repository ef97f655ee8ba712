package model

import (
	"slices"
	"strings"
	"testing"

	"golang.org/x/net/publicsuffix"

	"github.com/tallygate/tallygate/tools/testkit"
)

// TestNameOfSource checks the names of hosts and of names that campaigns use.
func TestNameOfSource(t *testing.T) {
	for source, want := range map[string]string{
		"":                            "",
		"google":                      "Google",
		"GOOGLE ":                     "Google",
		"Google":                      "Google",
		"www.google.com":              "Google",
		"www.google.com.":             "Google",
		"www.google.de":               "Google",
		"google.co.uk":                "Google",
		"images.google.fr":            "Google",
		"mail.google.com":             "Gmail",
		"gmail":                       "Gmail",
		"gemini.google.com":           "Gemini",
		"news.google.com":             "Google News",
		"docs.google.com":             "docs.google.com",
		"accounts.google.com":         "accounts.google.com",
		"google.evil.example":         "google.evil.example",
		"google.xyz":                  "google.xyz",
		"notgoogle.com":               "notgoogle.com",
		"google.com.evil.example":     "google.com.evil.example",
		"l.instagram.com":             "Instagram",
		"instagram":                   "Instagram",
		"ig":                          "Instagram",
		"business.instagram.com":      "business.instagram.com",
		"m.facebook.com":              "Facebook",
		"lm.facebook.com":             "Facebook",
		"fb":                          "Facebook",
		"t.co":                        "X",
		"x":                           "X",
		"twitter.com":                 "X",
		"t":                           "t",
		"t.me":                        "Telegram",
		"out.reddit.com":              "Reddit",
		"de.search.yahoo.com":         "Yahoo",
		"mail.yahoo.com":              "mail.yahoo.com",
		"de.wikipedia.org":            "Wikipedia",
		"news.ycombinator.com":        "Hacker News",
		"www.bing.com":                "Bing",
		"edgeservices.bing.com":       "Copilot",
		"www.perplexity.ai":           "Perplexity",
		"chat.openai.com":             "ChatGPT",
		"www.amazon.co.uk":            "Amazon",
		"com.google.android.gm":       "Gmail",
		"de.pinterest.com":            "Pinterest",
		"Newsletter":                  "Newsletter",
		"hacker news":                 "Hacker News",
		"(other)":                     "(other)",
		"blog.Example.org":            "blog.Example.org",
		"xn--mnchen-3ya.example":      "xn--mnchen-3ya.example",
		".":                           ".",
		"..":                          "..",
		"com":                         "com",
		strings.Repeat("a.", 200):     strings.Repeat("a.", 200),
		strings.Repeat("google ", 50): strings.Repeat("google ", 50),
	} {
		testkit.Equal(t, NameOfSource(source), want, "%q has the name", source)
	}
}

// TestSourceNames checks that the list of names is sorted, that each entry is well formed and has
// one name, and that each name is listed once.
func TestSourceNames(t *testing.T) {
	lines, names := sourceList("names"), map[string]string{}
	if !slices.IsSorted(lines) || len(lines) < 50 {
		t.Errorf("%d lines, sorted: %v", len(lines), slices.IsSorted(lines))
	}

	listed := map[string]bool{}
	for _, line := range lines {
		name, entries, ok := strings.Cut(line, ": ")
		if !ok || listed[strings.ToLower(name)] || name != strings.TrimSpace(name) || strings.Contains(name, ".") {
			t.Errorf("%q is not a name with entries, or its name was listed before", line)
		}
		listed[strings.ToLower(name)] = true

		for _, entry := range strings.Fields(entries) {
			sources := sourcesOf(entry)
			if strings.HasSuffix(entry, "*") && len(sources) < 2 {
				t.Errorf("%q stands for %v", entry, sources)
			}
			for _, source := range sources {
				if other, known := names[source]; known {
					t.Errorf("%q is named %s and %s", source, other, name)
				}
				names[source] = name

				testkit.Equal(t, NameOfSource(source), name, "%q is named", source)
				suffix, icann := publicsuffix.PublicSuffix(source)
				if strings.Contains(source, ".") && (!hostName.MatchString(source) || icann && suffix == source) {
					t.Errorf("%q is not a host", source)
				}
				if !strings.Contains(source, ".") && !bareName.MatchString(source) {
					t.Errorf("%q is not a bare name", source)
				}
			}
		}
	}
	if SourceNamesVersion() == 0 {
		t.Error("the version of the names is 0")
	}
}

// FuzzNameOfSource checks that the name of a name is itself, so that a row and a filter by its
// value agree.
func FuzzNameOfSource(f *testing.F) {
	for _, source := range []string{"www.google.com", " Google. ", "t.co", "..", "a..google.com", "x.", "Hacker News", "\xff.de"} {
		f.Add(source)
	}
	f.Fuzz(func(t *testing.T, source string) {
		name := NameOfSource(source)
		testkit.Equal(t, NameOfSource(name), name, "%q is named %q, and that", source, name)
		testkit.Equal(t, (name == ""), (source == ""), "%q is named %q", source, name)
	})
}

// BenchmarkNameOfSource names a host without a name, the most frequent case.
func BenchmarkNameOfSource(b *testing.B) {
	b.ReportAllocs()
	for b.Loop() {
		if NameOfSource("blog.site-17.example") == "" {
			b.Fatal("no name")
		}
	}
}
