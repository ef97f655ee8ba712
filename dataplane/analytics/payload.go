package analytics

import (
	"math"
	"strconv"
	"strings"

	"github.com/tallygate/tallygate/dataplane/analytics/channel"
	"github.com/tallygate/tallygate/dataplane/jsonbody"
	"github.com/tallygate/tallygate/db/model"
)

// Limits of texts, in characters. Longer ones are cut.
const (
	maxPath     = 2_048 // as stored
	maxReferrer = 2_048 // as stored: host and path
	maxCampaign = 200
	maxClickID  = 512
	maxLanguage = 65
	maxText     = jsonbody.Max // cut later, by its own rule
)

// payload is the body of a collect call (analytics contract, section 2). Names, keys, ids and the
// path are as they were sent, other texts are cleaned. A member whose value has the wrong JSON type
// counts as absent.
type payload struct {
	siteKey    string // k
	kind       string // t
	path       string // p; empty when it was absent or not a text
	referrer   string // r
	pageviewID string // i
	campaign   model.Campaign
	width      int    // w; CSS pixels, 0 when absent
	language   string // l
	event      string // e
	properties []byte // m; JSON text, nil when absent
	ms         int    // ms; milliseconds in view
	scroll     int    // sc; percent
	userID     string // d; the pseudonymous user id
	auto       string // a; "off" under data-auto="off"
	manual     bool   // x is 1
}

// The values of t.
const (
	kindPageview   = "pageview"
	kindEvent      = "event"
	kindEngagement = "engagement"
)

// parsePayload reads a collection payload, which must name one of the three kinds. With an error,
// it returns the members before the fault.
func parsePayload(text []byte) (*payload, error) {
	var p payload
	o := jsonbody.Open(text)
	defer o.Close()

	for o.Next() {
		switch o.Key() {
		case "k":
			o.Exact(&p.siteKey)
		case "t":
			o.Exact(&p.kind)
		case "p":
			o.Exact(&p.path)
		case "r":
			o.Text(&p.referrer, maxText)
		case "i":
			o.Exact(&p.pageviewID)
		case "u":
			readCampaign(o, &p.campaign)
		case "w":
			p.width = readInt(o)
		case "l":
			o.Text(&p.language, maxLanguage)
		case "e":
			o.Exact(&p.event)
		case "m":
			p.properties = []byte(o.Raw())
		case "ms":
			p.ms = readInt(o)
		case "sc":
			p.scroll = readInt(o)
		case "d":
			o.Exact(&p.userID)
		case "a":
			o.Exact(&p.auto)
		case "x":
			p.manual = readInt(o) == 1
		}
	}

	if o.Err() != nil || p.kind != kindPageview && p.kind != kindEvent && p.kind != kindEngagement {
		return &p, errBadJSON
	}

	return &p, nil
}

// readCampaign reads the campaign object. utm values are stored in lower case, click ids as they
// are. A click id without a utm_source sets source and medium (analytics contract, section 2).
func readCampaign(o *jsonbody.Object, c *model.Campaign) {
	if !o.Enter() {
		return
	}

	for o.Next() {
		switch o.Key() {
		case "source":
			readLower(o, &c.Source)
		case "medium":
			readLower(o, &c.Medium)
		case "campaign":
			readLower(o, &c.Name)
		case "content":
			readLower(o, &c.Content)
		case "term":
			readLower(o, &c.Term)
		case "gclid":
			o.Text(&c.Gclid, maxClickID)
		case "gbraid":
			o.Text(&c.Gbraid, maxClickID)
		case "wbraid":
			o.Text(&c.Wbraid, maxClickID)
		case "fbclid":
			o.Text(&c.Fbclid, maxClickID)
		case "msclkid":
			o.Text(&c.Msclkid, maxClickID)
		}
	}

	*c = channel.Complete(*c)
}

// readLower reads a utm value.
func readLower(o *jsonbody.Object, s *string) {
	o.Text(s, maxCampaign)
	*s = strings.ToLower(strings.TrimSpace(*s))
}

// readInt reads a number as an integer, clamped to 32 bits. It returns 0 for another JSON type.
func readInt(o *jsonbody.Object) int {
	number := o.Number()
	if number == "" {
		return 0
	}

	// A number beyond float64 is read as infinity.
	f, _ := strconv.ParseFloat(number, 64)
	return int(max(math.MinInt32, min(f, math.MaxInt32)))
}
