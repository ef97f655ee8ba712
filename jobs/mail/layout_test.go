package mail

import (
	"html"
	"os"
	"path/filepath"
	"reflect"
	"regexp"
	"strings"
	"testing"

	"github.com/tallygate/tallygate/db/model"
	"github.com/tallygate/tallygate/db/outbox"
	"github.com/tallygate/tallygate/jobs/mail/text"
	"github.com/tallygate/tallygate/tools/testkit"
)

// TestLayoutEscapes puts hostile text into every field of the layout.
func TestLayoutEscapes(t *testing.T) {
	for _, hostile := range []string{
		`"><script>alert(1)</script>`, `'"><img src=x onerror=alert(1)>`, "a\nb <b>", `javascript:alert("1")`, `</title></style>&lt;`,
	} {
		p := &page{
			Language: model.Language(hostile), Subject: hostile, Installation: hostile,
			AccountLabel: hostile, Account: hostile, SiteLabel: hostile, Site: hostile,
			Blocks: []block{{Text: hostile}, {Text: hostile, Rows: [][]string{{hostile, hostile}}}},
			Link:   hostile, Button: hostile, Reason: hostile, StopLabel: hostile, StopURL: hostile, Sender: hostile,
		}
		for field, value := range reflect.ValueOf(p).Elem().Fields() {
			if value.IsZero() {
				t.Errorf("%s is not tested", field.Name)
			}
		}

		// The markup is the markup of a page with harmless text, and the text is there once for
		// each place.
		got := layout(p)
		tags := regexp.MustCompile(`<[^>]*>`)
		want := strings.Join(tags.FindAllString(layout(harmless()), -1), "")
		if found := strings.Join(tags.FindAllString(got, -1), ""); strings.ReplaceAll(found, escaped(hostile), "x") != want {
			t.Errorf("%q changes the markup:\n%s", hostile, got)
		}
		if n := strings.Count(got, escaped(hostile)); n != 14 {
			t.Errorf("%q is in %d places:\n%s", hostile, n, got)
		}
		if strings.Contains(got, "href=") {
			t.Errorf("%q is a link:\n%s", hostile, got)
		}
	}
}

// TestLayoutLinks checks that links lead to web addresses only, in escaped form.
func TestLayoutLinks(t *testing.T) {
	for address, want := range map[string]string{
		"https://stats.example/a?b=1&c=2#d": "https://stats.example/a?b=1&amp;c=2#d",
		`https://stats.example/"><script>`:  "https://stats.example/&quot;&gt;&lt;script&gt;",
		"https://stats.example/'x'":         "https://stats.example/&#39;x&#39;",

		"javascript:alert(1)": "", "JavaScript://stats.example/%0aalert(1)": "", "data:text/html,x": "", "mailto:a@b.example": "",
		"//evil.example/": "", "/path": "", "https:": "", "https://stats.example/\njavascript:alert(1)": "", " https://stats.example/": "",
	} {
		p := harmless()
		p.Link, p.StopURL = address, address

		links := regexp.MustCompile(`href="([^"]*)"`).FindAllStringSubmatch(layout(p), -1)
		for _, link := range links {
			if want == "" || link[1] != want {
				t.Errorf("%q becomes %q, want %q", address, link[1], want)
			}
		}
		if want != "" && len(links) != 2 {
			t.Errorf("%q: %d links, want 2", address, len(links))
		}
	}
}

// harmless returns a page with all parts but the links.
func harmless() *page {
	return &page{
		Language: "x", Subject: "x", Installation: "x", AccountLabel: "x", Account: "x", SiteLabel: "x", Site: "x",
		Blocks: []block{{Text: "x"}, {Text: "x", Rows: [][]string{{"x", "x"}}}}, Reason: "x", Sender: "x",
	}
}

// escaped returns a text as quicktemplate escapes it.
func escaped(s string) string {
	return strings.ReplaceAll(html.EscapeString(s), "&#34;", "&quot;")
}

// TestTemplatesEscape checks that the layout escapes everything, and that plain text is not
// escaped.
func TestTemplatesEscape(t *testing.T) {
	escapes, plain := regexp.MustCompile(`{%-?\s*(s|v|q|z|j|qz|sz|jz|=h|=qh|=jh)\s`), regexp.MustCompile(`{%-?\s*[a-z.0-9]*=\s`)

	source, err := os.ReadFile("layout.qtpl")
	testkit.NoError(t, err)
	if found := plain.FindString(string(source)); found != "" || !escapes.Match(source) {
		t.Errorf("layout.qtpl has %s, which does not escape", found)
	}

	// Each kind has a template but own_alert, which shares the template of alert; common.qtpl is of
	// no kind.
	files, err := filepath.Glob("text/*/*.qtpl")
	if err != nil || len(files) != len(model.Languages)*len(outbox.MailKinds) {
		t.Errorf("%d templates, %v", len(files), err)
	}
	for _, file := range files {
		source, err := os.ReadFile(file)
		if found := escapes.FindString(string(source)); err != nil || found != "" {
			t.Errorf("%s has %s, which escapes: %v", file, found, err)
		}
	}
}

// TestKinds checks that every kind can be written, with every part, in every language.
func TestKinds(t *testing.T) {
	for kind := range kinds {
		if _, ok := outbox.MailKinds[kind]; !ok {
			t.Errorf("%s is no kind of mail", kind)
		}
	}

	for kind := range outbox.MailKinds {
		for _, language := range model.Languages {
			v := &view{View: text.View{Locale: text.Locales[language], Site: "shop.example"}}
			mail, err := kinds[kind](language, v, []byte(examples[kind]))
			if err != nil || mail.page == "" {
				t.Errorf("%s in %s: %+v, %v", kind, language, mail, err)
				continue
			}
			for _, part := range []text.Part{text.Subject, text.Button, text.Body, text.Reason} {
				if mail.part(part) == "" {
					t.Errorf("%s in %s has no part %d", kind, language, part)
				}
			}
		}
	}
}
