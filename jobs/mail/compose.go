package mail

import (
	_ "embed"
	"html/template"
	"strings"
)

// text is the content of a mail. It is sent as plain text and as HTML.
type text struct {
	Subject    string
	Paragraphs []string
	Link       string // follows the paragraphs; a URL, home or ""
	LinkText   string
	Sender     string // last line: the installation that sends the mail; "": none
}

// home is a Link to the installation.
const home = "/"

// setSender names the installation at the end of the mail, and completes a link to it. Without a
// base URL the mail has neither.
func (t *text) setSender(baseURL string) {
	if t.Link == home {
		t.Link = ""

		if baseURL != "" {
			t.Link = baseURL + home
		}
	}

	if baseURL != "" {
		t.Sender = "This mail was sent by Tallygate at " + baseURL + "."
	}
}

// plainText returns the mail as plain text.
func (t *text) plainText() string {
	parts := t.Paragraphs
	if t.Link != "" {
		parts = append(parts[:len(parts):len(parts)], t.LinkText+":\n"+t.Link)
	}
	if t.Sender != "" {
		parts = append(parts[:len(parts):len(parts)], t.Sender)
	}

	return strings.Join(parts, "\n\n") + "\n"
}

//go:embed templates/mail.html
var htmlSource string

var htmlTemplate = template.Must(template.New("mail").Parse(htmlSource))

// html returns the mail as HTML. The template escapes everything that it inserts.
func (t *text) html() (string, error) {
	var b strings.Builder
	err := htmlTemplate.Execute(&b, t)
	return b.String(), err
}
