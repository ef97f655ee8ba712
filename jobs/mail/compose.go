package mail

import (
	"context"
	"encoding/json"
	"fmt"
	"net/url"
	"reflect"
	"strings"
	"text/template"

	"github.com/tallygate/tallygate/db/model"
)

// composer renders mails.
type composer struct {
	baseURL string // origin of the control plane; "": mails neither name it nor link to it

	// ids returns the ids of objects, which are parts of links. nil: links lead to the first page.
	ids func(context.Context) (*model.NodeIDs, error)
}

// content is a mail in its language.
type content struct {
	Language model.Language
	Subject  string
	Text     string
	HTML     string
	StopURL  string // ends mails of this kind after a POST request; may be ""
}

// view is the data of a kind's template.
type view struct {
	Data    any    // of the kind: a pointer to the type in model.MailKinds
	Account string // name of the account without addresses that mail programs would link; may be ""
	Site    string // domain; may be ""

	siteID string // "": the site has no page
	stop   string // secret that stops mails of this kind; may be ""
}

// SitePage returns the path of a page of the mail's site: "" for the report, else for instance
// "settings". Without a site it is the first page.
func (v *view) SitePage(page string) string {
	switch {
	case v.siteID == "":
		return "/"
	case page == "" || page[0] == '?':
		return "/sites/" + v.siteID + page
	}
	return "/sites/" + v.siteID + "/" + page
}

// CanStop reports whether the mail has a link that ends mails of its kind.
func (v *view) CanStop() bool { return v.stop != "" }

// compose renders a mail.
func (c *composer) compose(ctx context.Context, stored *model.Mail) (*content, error) {
	language := stored.Language
	if !language.IsLanguage() {
		language = model.English
	}

	source, ok := templates()[language][stored.Kind]
	if !ok {
		return nil, fmt.Errorf("unknown kind of mail %q", stored.Kind)
	}

	v, err := c.view(ctx, stored)
	if err != nil {
		return nil, fmt.Errorf("data of a mail of kind %q: %w", stored.Kind, err)
	}

	p := page{Language: language, Account: v.Account, Site: v.Site}
	if err := c.fill(&p, source, v); err != nil {
		return nil, fmt.Errorf("mail of kind %q: %w", stored.Kind, err)
	}

	html, err := p.html()
	return &content{
		Language: language, Subject: p.Subject, Text: p.text(), HTML: html, StopURL: p.StopURL,
	}, err
}

// fill executes the parts of a kind's template.
func (c *composer) fill(p *page, source *template.Template, v *view) error {
	var failed error
	part := func(name string) string {
		var b strings.Builder
		if err := source.ExecuteTemplate(&b, name, v); err != nil && failed == nil {
			failed = err
		}
		return strings.TrimSpace(b.String())
	}

	p.Subject = model.Clean(oneLine(part("subject")), maxSubject)
	p.Blocks = blocks(part("body"))
	p.Link = c.link(part("page"))
	p.Button = oneLine(part("button"))
	p.Reason = oneLine(part("reason"))
	p.AccountLabel, p.SiteLabel, p.StopLabel = part("account"), part("site"), part("stop")

	if c.baseURL != "" {
		p.Installation = strings.TrimPrefix(strings.TrimPrefix(c.baseURL, "https://"), "http://")
		p.Sender = part("sender") + " " + c.baseURL + "."
	}
	if v.stop != "" && c.baseURL != "" {
		p.StopURL = c.baseURL + model.StopMailPath + "?token=" + url.QueryEscape(v.stop)
	}

	return failed
}

// maxSubject is the longest subject in characters.
const maxSubject = 150

// link returns the URL of a path, or of a URL that the control plane wrote; "" for anything else.
func (c *composer) link(address string) string {
	if strings.HasPrefix(address, "/") {
		if c.baseURL == "" {
			return ""
		}
		address = c.baseURL + address
	}

	u, err := url.Parse(address)
	if err != nil || u.Host == "" || u.Scheme != "https" && u.Scheme != "http" {
		return ""
	}
	return address
}

// view decodes the data of a mail. All of its texts become single lines.
func (c *composer) view(ctx context.Context, stored *model.Mail) (*view, error) {
	raw, err := cleaned(stored.Data)
	if err != nil {
		return nil, err
	}

	data := reflect.New(reflect.TypeOf(model.MailKinds[stored.Kind])).Interface()
	if err := json.Unmarshal(raw, data); err != nil {
		return nil, err
	}

	var about struct {
		model.MailSite
		UserID int64                `json:"userId"`
		Kind   model.ReportMailKind `json:"kind"`
	}
	if err := json.Unmarshal(raw, &about); err != nil {
		return nil, err
	}

	v := &view{Data: data, Account: accountName(stored.Account), Site: about.Site}
	if c.ids == nil || about.SiteID == 0 {
		return v, nil
	}

	ids, err := c.ids(ctx)
	if err != nil {
		return nil, err
	}

	v.siteID = ids.Of(model.NodeSite, about.SiteID)
	if about.UserID != 0 {
		v.stop = ids.OfStop(about.Kind, about.SiteID, about.UserID)
	}

	return v, nil
}

// accountName returns the name of an account as a line of text without quotes.
func accountName(name string) string {
	if name == "" {
		return ""
	}
	return strings.Trim(model.MailName(withoutControls(name)), `"`)
}
