package mail

import (
	"context"
	"encoding/json"
	"fmt"
	"net/url"
	"strings"

	"github.com/tallygate/tallygate/db/model"
	"github.com/tallygate/tallygate/db/nodeid"
	"github.com/tallygate/tallygate/jobs/mail/text"
)

// composer renders mails.
type composer struct {
	baseURL string // origin of the control plane; "": mails neither name it nor link to it

	// ids returns the ids of objects, which are parts of links. nil: links lead to the first page.
	ids func(context.Context) (*nodeid.IDs, error)
}

// content is a mail in its language.
type content struct {
	Language model.Language
	Subject  string
	Text     string
	HTML     string
	StopURL  string // ends mails of this kind after a POST request; may be ""
}

// view is what the pages and texts of all kinds can read.
type view struct {
	text.View

	siteID string // "": the site has no page
	stop   string // secret that stops mails of this kind; may be ""
}

// sitePage returns the path of a page of the mail's site: "" for the report, else for instance
// "settings". Without a site it is the first page.
func (v *view) sitePage(page string) string {
	switch {
	case v.siteID == "":
		return "/"
	case page == "" || page[0] == '?':
		return "/sites/" + v.siteID + page
	}
	return "/sites/" + v.siteID + "/" + page
}

// compose renders a mail.
func (c *composer) compose(ctx context.Context, stored *model.Mail) (*content, error) {
	language := stored.Language
	if !language.IsLanguage() {
		language = model.English
	}

	write, ok := kinds[stored.Kind]
	if !ok {
		return nil, fmt.Errorf("unknown kind of mail %q", stored.Kind)
	}

	raw, err := cleaned(stored.Data)
	if err != nil {
		return nil, fmt.Errorf("data of a mail of kind %q: %w", stored.Kind, err)
	}

	v, err := c.view(ctx, stored.Account, raw)
	if err != nil {
		return nil, fmt.Errorf("data of a mail of kind %q: %w", stored.Kind, err)
	}
	v.Locale = text.Locales[language]

	mail, err := write(language, v, raw)
	if err != nil {
		return nil, fmt.Errorf("data of a mail of kind %q: %w", stored.Kind, err)
	}

	p := c.page(v, mail)
	p.Language = language
	return &content{
		Language: language, Subject: p.Subject, Text: p.text(), HTML: layout(p), StopURL: p.StopURL,
	}, nil
}

// page returns the parts of a mail.
func (c *composer) page(v *view, mail *letter) *page {
	p := &page{
		Account: v.Account, AccountLabel: v.AccountLabel, Site: v.Site, SiteLabel: v.SiteLabel, StopLabel: v.StopLabel,

		Subject: model.Clean(oneLine(mail.part(text.Subject)), maxSubject),
		Blocks:  blocks(mail.part(text.Body)),
		Link:    c.link(mail.page),
		Button:  oneLine(mail.part(text.Button)),
		Reason:  oneLine(mail.part(text.Reason)),
	}

	if c.baseURL != "" {
		p.Installation = strings.TrimPrefix(strings.TrimPrefix(c.baseURL, "https://"), "http://")
		p.Sender = v.Sender + " " + c.baseURL + "."
	}
	if v.stop != "" && c.baseURL != "" {
		p.StopURL = c.baseURL + model.StopMailPath + "?token=" + url.QueryEscape(v.stop)
	}

	return p
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

	return webAddress(address)
}

// webAddress returns the address if it is a URL of http or https, else "".
func webAddress(address string) string {
	u, err := url.Parse(address)
	if err != nil || u.Host == "" || u.Scheme != "https" && u.Scheme != "http" {
		return ""
	}
	return address
}

// view reads the site of a mail from its data, in which all texts are single lines.
func (c *composer) view(ctx context.Context, account string, raw []byte) (*view, error) {
	var about struct {
		model.MailSite
		ChannelID   int64         `json:"channelId"`
		ConfirmedAt model.Instant `json:"confirmedAt"`
	}
	if err := json.Unmarshal(raw, &about); err != nil {
		return nil, err
	}

	v := &view{View: text.View{Account: accountName(account), Site: about.Site}}
	if c.ids == nil || about.SiteID == 0 && about.ChannelID == 0 {
		return v, nil
	}

	ids, err := c.ids(ctx)
	if err != nil {
		return nil, err
	}

	if about.SiteID != 0 {
		v.siteID = nodeid.Of(ids, about.SiteID)
	}
	if about.ChannelID != 0 {
		v.stop = ids.OfChannelStop(about.ChannelID, about.ConfirmedAt)
		v.CanStop = true
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
