package assets

import (
	"net/url"
	"strings"
	"testing"
)

// hostileTexts would add markup, an attribute or a script.
var hostileTexts = []string{`"><script>alert(1)</script>`, `" onload="alert(1)`, `'><img src=x>`, "a\n\"<b>", "&quot;<"}

// TestPreviewEscapes puts hostile text into every field of the page, although requests with it are
// refused.
func TestPreviewEscapes(t *testing.T) {
	for _, hostile := range hostileTexts {
		got := previewPage(preview{Sitekey: hostile, Language: hostile, Theme: hostile, Script: hostile})

		escaped := strings.NewReplacer("&", "&amp;", "<", "&lt;", ">", "&gt;", `"`, "&quot;", "'", "&#39;").Replace(hostile)
		if n := strings.Count(got, `="`+escaped+`"`); n != 4 {
			t.Errorf("%q is in %d attributes:\n%s", hostile, n, got)
		}
		if rest := strings.ReplaceAll(got, escaped, ""); rest != previewPage(preview{}) {
			t.Errorf("%q changes the page:\n%s", hostile, got)
		}
	}
}

// TestPreviewRefuses checks that hostile parameters never reach the page.
func TestPreviewRefuses(t *testing.T) {
	valid := url.Values{"sitekey": {"svck_abcdefghijklmnopqrstuvwx"}, "lang": {"de"}, "theme": {"dark"}}
	for _, hostile := range hostileTexts {
		for name := range valid {
			query, _ := url.ParseQuery(valid.Encode())
			query.Set(name, hostile)
			if r := getConsole(t, "GET", captchaPreview+"?"+query.Encode()); r.StatusCode != 400 {
				t.Errorf("%s=%q: status %d, want 400", name, hostile, r.StatusCode)
			}
		}
	}
}
