package importer_test

import (
	"regexp"
	"strings"
	"testing"

	"github.com/tallygate/tallygate/cmd/tallygate/importer"
	"github.com/tallygate/tallygate/db/model"
	"github.com/tallygate/tallygate/tools/testkit"
)

// TestPaths checks paths against location.pathname of Chromium 156. A lone percent sign is the
// exception: browsers leave it, but services that decode paths write it for %25.
func TestPaths(t *testing.T) {
	for page, want := range map[string]string{
		"/": "/", "/pricing": "/pricing", "pricing": "/pricing", "": "", "(other)": "(other)", "(not set)": "(not set)",

		"/café menu": "/caf%C3%A9%20menu", "/caf%C3%A9%20menu": "/caf%C3%A9%20menu", "/caf%c3%a9": "/caf%c3%a9", "/🎉": "/%F0%9F%8E%89",
		"/100%": "/100%25", "/100%25": "/100%25", "/50%-off/%zz/%e": "/50%25-off/%25zz/%25e", "/b ": "/b%20",
		"/x\u0085y\u00a0z\u2028": "/x%C2%85y%C2%A0z%E2%80%A8", "/x\x00\x01\x1f\x7fy": "/x%00%01%1F%7Fy",
		`/x"<>^` + "`{|}y":       "/x%22%3C%3E%5E%60%7B%7C%7Dy",
		"/!$&'()*+,-.;=@[]_~:09": "/!$&'()*+,-.;=@[]_~:09",

		"/a\\b": "/a/b", "/x\ty\r\n": "/xy", "//a//b": "//a//b",
		"/a/../b": "/b", "/a/./b": "/a/b", "/a/%2e%2E/b": "/b", "/a/%2e": "/a/", "/a/..": "/", "/..": "/", "/a/...": "/a/...", "/%2e.": "/",

		"https://shop.example/pricing": "/pricing", "https://shop.example": "/", "HTTP://shop.example:8080/café?q=a b#c": "/caf%C3%A9",
		"https://shop.example?utm_source=x": "/", "https://shop.example#top": "/", "android-app://com.example/start": "/start",
		"/pricing?email=ann@corp.example": "/pricing", "/pricing#plans": "/pricing", "?p=1": "/", "pricing?next=https://a.example/b": "/pricing",
		"/out/https://a.example/b": "/out/https://a.example/b",
	} {
		testkit.Equal(t, importer.PathOf(page), want, "the path of %q", page)
	}

	long := "/" + strings.Repeat("é", model.MaxFilterText)
	a, b := importer.PathOf(long+"a"), importer.PathOf(long+"b")
	if len(a) > model.MaxFilterText || a == b || a != importer.PathOf(long+"a") {
		t.Errorf("long paths become %d bytes, equal: %v", len(a), a == b)
	}
}

// TestReferrers checks the form of referrers and sources: hosts are encoded as in own hits.
func TestReferrers(t *testing.T) {
	for referrer, want := range map[string]string{
		"": "", "news.example.org/a b?c=d": "https://news.example.org/a%20b", "http://bücher.example/100%": "http://bücher.example/100%25",
		"android-app://com.slack/": "android-app://com.slack/",
	} {
		testkit.Equal(t, importer.Address(referrer), want, "the address of %q", referrer)
	}
	for source, want := range map[string]string{
		"Bücher.Example": "xn--bcher-kva.example", "bücher.example/regal": "xn--bcher-kva.example", "news.example.org": "news.example.org",
		"Hacker News": "hacker news", "Google": "google", "": "",
	} {
		testkit.Equal(t, importer.SourceOf(source), want, "the source %q", source)
	}
}

// stored is the form of a stored path.
var stored = regexp.MustCompile(`^/(?:[!-$&-;=@-\[\]_a-z~]|%[0-9A-Fa-f]{2})*$`)

// FuzzPaths checks that a path has the form of location.pathname, and stays as it is when it is imported
// again.
func FuzzPaths(f *testing.F) {
	for _, page := range []string{
		"/café menu", "https://a.example/b?c#d", "/%", "/a/../%2e/b", `\a`, "/%2%35", "x\x00\xff",
		"/" + strings.Repeat("é ", 2_000),
	} {
		f.Add(page)
	}
	f.Fuzz(func(t *testing.T, page string) {
		if page == "" || page == "(other)" || page == "(not set)" {
			return
		}
		path := importer.PathOf(page)
		if !stored.MatchString(path) || len(path) > model.MaxFilterText {
			t.Errorf("%.80q becomes %q", page, path)
		}
		testkit.Equal(t, importer.PathOf(path), path, "%.80q becomes %q, and that", page, path)
	})
}
