package segment

import (
	"strings"

	"github.com/tallygate/tallygate/db/model"
)

// Origin returns the number of a referrer and campaign. Equal ones may share it, except during a
// census, which counts the texts of each visit: see Counts.
func (d *DayBuilder) Origin(referrer string, c *model.Campaign) Origin {
	text := func(f Field, text string) Text { return d.text(f, []byte(text)) }
	source := sourceOf(referrer, c)
	o := origin{
		source: text(Source, source), group: text(SourceGroup, string(model.GroupOfSource(source))),
		referrer: text(Referrer, referrer), utmSource: text(UTMSource, c.Source),
		medium: text(UTMMedium, c.Medium), campaign: text(UTMCampaign, c.Name), content: text(UTMContent, c.Content),
		term: text(UTMTerm, c.Term), clickID: text(ClickID, platformOf(c)),
	}

	n, known := d.known[o]
	if !known {
		n = Origin(len(d.origins))
		d.origins = append(d.origins, o)
		d.known[o] = n
	}
	return n
}

// sourceOf returns utm_source or, without one, the referring host.
func sourceOf(referrer string, c *model.Campaign) string {
	if c.Source != "" {
		return c.Source
	}
	host, _, _ := strings.Cut(referrer, "/")
	return host
}

// platformOf returns the ad platform whose click id the visit carried. Meta's counts last, because
// it is on unpaid links too.
func platformOf(c *model.Campaign) string {
	switch {
	case c.Gclid != "" || c.Gbraid != "" || c.Wbraid != "":
		return "google"
	case c.Msclkid != "":
		return "bing"
	case c.Fbclid != "":
		return "facebook"
	default:
		return ""
	}
}
