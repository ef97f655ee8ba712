package analytics

import (
	"bytes"
	"math"
	"strconv"
	"strings"

	"github.com/go-json-experiment/json/jsontext"

	"github.com/tallygate/tallygate/dataplane/analytics/channel"
	"github.com/tallygate/tallygate/dataplane/body"
	"github.com/tallygate/tallygate/db/model"
)

// Limits of what is kept of a payload's texts, in characters. Longer ones are cut.
const (
	maxLanguage = 65
	maxCampaign = 200
	maxClickID  = 512
	maxText     = body.Max // cut later, by its own rule
)

// payload is the collection payload (analytics contract, section 2). Names, keys, ids and the path
// are as they were sent, other texts are cleaned. A key whose value has the wrong JSON type counts
// as absent.
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

var errBadJSON = &model.Error{Kind: model.Invalid, Code: "bad_json"}

// parsePayload reads a collection payload, which must name one of the three kinds. With an error,
// it returns what stands before the fault.
func parsePayload(text []byte) (*payload, error) {
	var p payload
	if body.Object(text, p.member) != nil {
		return &p, errBadJSON
	}
	if p.kind != kindPageview && p.kind != kindEvent && p.kind != kindEngagement {
		return &p, errBadJSON
	}

	return &p, nil
}

func (p *payload) member(d *jsontext.Decoder, key string) error {
	switch key {
	case "k":
		return body.Exact(d, &p.siteKey)
	case "t":
		return body.Exact(d, &p.kind)
	case "p":
		return body.Exact(d, &p.path)
	case "r":
		return body.Text(d, &p.referrer, maxText)
	case "i":
		return body.Exact(d, &p.pageviewID)
	case "u":
		return readCampaign(d, &p.campaign)
	case "w":
		return readNumber(d, &p.width)
	case "l":
		return body.Text(d, &p.language, maxLanguage)
	case "e":
		return body.Exact(d, &p.event)
	case "m":
		return readRaw(d, &p.properties)
	case "ms":
		return readNumber(d, &p.ms)
	case "sc":
		return readNumber(d, &p.scroll)
	case "d":
		return body.Exact(d, &p.userID)
	case "a":
		return body.Exact(d, &p.auto)
	case "x":
		var x int
		err := readNumber(d, &x)
		p.manual = x == 1

		return err
	}

	return d.SkipValue()
}

// readCampaign reads the campaign object. utm values are kept in lower case; click ids stay as they
// are. A click id without a utm_source sets source and medium (analytics contract, section 2).
func readCampaign(d *jsontext.Decoder, c *model.Campaign) error {
	if d.PeekKind() != '{' {
		return d.SkipValue()
	}

	err := body.Members(d, func(d *jsontext.Decoder, key string) error {
		switch key {
		case "source":
			return readLower(d, &c.Source)
		case "medium":
			return readLower(d, &c.Medium)
		case "campaign":
			return readLower(d, &c.Name)
		case "content":
			return readLower(d, &c.Content)
		case "term":
			return readLower(d, &c.Term)
		case "gclid":
			return body.Text(d, &c.Gclid, maxClickID)
		case "gbraid":
			return body.Text(d, &c.Gbraid, maxClickID)
		case "wbraid":
			return body.Text(d, &c.Wbraid, maxClickID)
		case "fbclid":
			return body.Text(d, &c.Fbclid, maxClickID)
		case "msclkid":
			return body.Text(d, &c.Msclkid, maxClickID)
		}

		return d.SkipValue()
	})

	*c = channel.Complete(*c)
	return err
}

func readLower(d *jsontext.Decoder, s *string) error {
	err := body.Text(d, s, maxCampaign)
	*s = strings.ToLower(strings.TrimSpace(*s))
	return err
}

// readNumber reads a number as a whole one, cut to 32 bits. Another JSON type leaves it 0.
func readNumber(d *jsontext.Decoder, n *int) error {
	if d.PeekKind() != '0' {
		return d.SkipValue()
	}

	token, err := d.ReadToken()
	if err != nil {
		return err
	}

	// a number beyond float64 arrives as infinity
	f, _ := strconv.ParseFloat(token.String(), 64)
	*n = int(max(math.MinInt32, min(f, math.MaxInt32)))
	return nil
}

// readRaw keeps a value as the JSON text that was sent.
func readRaw(d *jsontext.Decoder, raw *[]byte) error {
	value, err := d.ReadValue()
	// the decoder reuses its own
	*raw = bytes.Clone(value)
	return err
}
