package demo

import (
	"net/http"
	"net/http/httptest"
	"net/url"
	"strings"
	"testing"

	"github.com/tallygate/tallygate/graph/client"
)

// hostile would add markup, an attribute or a script.
const (
	hostile        = `"><script>alert(1)</script> ' onload=x`
	hostileEscaped = `&quot;&gt;&lt;script&gt;alert(1)&lt;/script&gt; &#39; onload=x`
)

// TestShopEscapes puts hostile text into every field of the shop's pages but the tag, which is
// markup.
func TestShopEscapes(t *testing.T) {
	form := &contactForm{Captcha: hostile, Sitekey: hostile}
	for name, test := range map[string]struct {
		content pageContent
		places  int // of the texts; the title is in two, and the footer has four
	}{
		"plain":    {pageContent{}, 6},
		"buy":      {pageContent{Buy: true}, 6},
		"webhooks": {pageContent{Webhooks: true}, 6},
		"form":     {pageContent{Form: form}, 9},
		"refused":  {pageContent{Form: form, Result: &contactResult{Reason: hostile, Answer: hostile}}, 11},
		"accepted": {pageContent{Form: form, Result: &contactResult{Accepted: true, Answer: hostile}}, 10},
	} {
		test.content.Title = hostile
		got := shop(&shopPage{
			pageContent: test.content, Tag: "<script defer src=x></script>",
			GraphQL: hostile, Email: hostile, PageviewsCSV: hostile, EventsCSV: hostile,
		})

		if n := strings.Count(got, hostileEscaped); n != test.places || strings.Contains(got, "<script>alert") {
			t.Errorf("%s: the text is in %d places, want %d:\n%s", name, n, test.places, got)
		}
		if !strings.Contains(got, "\n<script defer src=x></script>\n") {
			t.Errorf("%s lacks the tag:\n%s", name, got)
		}
	}
}

// TestContactEscapes checks what the page shows of a response that a visitor's token has
// influenced.
func TestContactEscapes(t *testing.T) {
	captcha := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		_, _ = w.Write([]byte(`{"valid":false,"token":"` + strings.ReplaceAll(hostile, `"`, `\"`) + `"}`))
	}))
	defer captcha.Close()

	d := &Demo{site: &client.Configured{}, form: newContactForm("https://captcha.example", captcha.URL, "svck_x", "secret")}
	request := httptest.NewRequest(http.MethodPost, "/contact", strings.NewReader(url.Values{
		"service-captcha-response": {hostile}, "message": {hostile},
	}.Encode()))
	request.Header.Set("Content-Type", "application/x-www-form-urlencoded")

	w := httptest.NewRecorder()
	d.Website().ServeHTTP(w, request)
	if got := w.Body.String(); !strings.Contains(got, "&lt;script&gt;alert(1)") || strings.Contains(got, "<script>") {
		t.Errorf("status %d:\n%s", w.Code, got)
	}
}
