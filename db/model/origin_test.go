package model

import (
	"fmt"
	"slices"
	"strings"
	"testing"
)

// TestParseOrigins checks which texts are origins of pages, and their form in a policy.
func TestParseOrigins(t *testing.T) {
	for text, want := range map[string]string{
		"https://www.example.org":         "https://www.example.org",
		" https://Example.ORG/ ":          "https://example.org",
		"https://example.org:443":         "https://example.org",
		"https://example.org:8443":        "https://example.org:8443",
		"https://example.org:08443":       "https://example.org:8443",
		"https://münchen.example":         "https://xn--mnchen-3ya.example",
		"https://localhost:3000":          "https://localhost:3000",
		"http://localhost":                "http://localhost",
		"http://localhost:80":             "http://localhost",
		"http://client.localhost:1234":    "http://client.localhost:1234",
		"HTTPS://example.org":             "https://example.org",
		"https://example.org.":            "",
		"":                                "",
		"example.org":                     "",
		"//example.org":                   "",
		"http://example.org":              "",
		"http://localhost.example.org":    "",
		"https://*.example.org":           "",
		"https://*":                       "",
		"*":                               "",
		"https:":                          "",
		"https://":                        "",
		"https://intranet":                "",
		"https://example.org/page":        "",
		"https://example.org?":            "",
		"https://example.org#":            "",
		"https://user@example.org":        "",
		"https://example.org:":            "",
		"https://example.org:0":           "",
		"https://example.org:65536":       "",
		"https://example.org:x":           "",
		"https://127.0.0.1":               "",
		"http://127.0.0.1:8080":           "",
		"https://[::1]":                   "",
		"https://a_b.example.org":         "",
		"https://-a.example.org":          "",
		"https://example.org https://a.b": "",
		"https://example.org;":            "",
		"https://example.org,a.b":         "",
		"https://example.org\nx":          "",
		"data:text/html,x":                "",
		"null":                            "",
		"'self'":                          "",
	} {
		got, err := ParseOrigins("origins", []string{text})
		if (err == nil) != (want != "") || err == nil && !slices.Equal(got, List[string]{want}) {
			t.Errorf("%q is %q, %v; want %q", text, got, err, want)
		}
	}

	got, err := ParseOrigins("origins", []string{"https://b.example", "https://a.example", "https://B.example:443"})
	if err != nil || !slices.Equal(got, List[string]{"https://a.example", "https://b.example"}) {
		t.Errorf("sorted: %q, %v", got, err)
	}

	var many []string
	for i := range MaxOrigins + 1 {
		many = append(many, fmt.Sprintf("https://o%d.example", i))
	}
	if _, err := ParseOrigins("origins", many[:MaxOrigins]); err != nil {
		t.Errorf("%d origins: %v", MaxOrigins, err)
	}
	if _, err := ParseOrigins("origins", many); err == nil {
		t.Errorf("%d origins are accepted", len(many))
	}
}

// FuzzParseOrigins checks that what is accepted cannot end a directive of a policy, and is stable.
func FuzzParseOrigins(f *testing.F) {
	for _, text := range []string{"https://example.org:8443", "http://localhost", "https://a.b;c", "https://ünï.example/"} {
		f.Add(text)
	}
	f.Fuzz(func(t *testing.T, text string) {
		got, err := ParseOrigins("origins", []string{text})
		if err != nil {
			return
		}
		const letters = "abcdefghijklmnopqrstuvwxyz0123456789-.:/"
		if strings.Trim(got[0], letters) != "" || strings.ContainsFunc(got[0], func(r rune) bool { return !strings.ContainsRune(letters, r) }) {
			t.Errorf("%q is %q", text, got[0])
		}
		again, err := ParseOrigins("origins", got)
		if err != nil || !slices.Equal(again, got) {
			t.Errorf("%q is %q, and then %q, %v", text, got, again, err)
		}
	})
}
