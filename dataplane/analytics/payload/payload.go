// Package payload holds the message of a browser, and reads it from the body of a collect call. It
// checks the form of the body alone: the rules of the values are package analytics'. It is pure.
package payload

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
	MaxCampaign = 200
	MaxClickID  = 512
	MaxLanguage = 65
	MaxText     = jsonbody.Max // cut later, by its own rule
)

// ErrBadJSON is returned for a body that is not one JSON object with each key once, or that names
// none of the three kinds (analytics contract, section 7).
var ErrBadJSON = &model.Error{Kind: model.Invalid, Code: "bad_json"}

// Payload is the body of a collect call (analytics contract, section 2). Names, keys, ids and the
// path are as they were sent, other texts are cleaned. A member with a value of the wrong JSON
// type counts as absent.
type Payload struct {
	SiteKey    string // k
	Kind       string // t
	Path       string // p; empty when it was absent or not a text
	Referrer   string // r
	PageviewID string // i
	Campaign   model.Campaign
	Width      int    // w; CSS pixels, 0 when absent
	Language   string // l
	Event      string // e
	Properties []byte // m; JSON text, nil when absent
	MS         int    // ms; milliseconds in view
	Scroll     int    // sc; percent
	UserID     string // d; the pseudonymous user id
	Auto       string // a; "off" under data-auto="off"
	Manual     bool   // x is 1
}

// The values of Kind.
const (
	KindPageview   = "pageview"
	KindEvent      = "event"
	KindEngagement = "engagement"
)

// Parse reads a collection payload, which must name one of the three kinds. With an error, it
// returns the members before the fault.
func Parse(text []byte) (*Payload, error) {
	var p Payload
	o := jsonbody.Open(text)
	defer o.Close()

	for o.Next() {
		switch o.Key() {
		case "k":
			o.Exact(&p.SiteKey)
		case "t":
			o.Exact(&p.Kind)
		case "p":
			o.Exact(&p.Path)
		case "r":
			o.Text(&p.Referrer, MaxText)
		case "i":
			o.Exact(&p.PageviewID)
		case "u":
			ReadCampaign(o, &p.Campaign)
		case "w":
			p.Width = ReadInt(o)
		case "l":
			o.Text(&p.Language, MaxLanguage)
		case "e":
			o.Exact(&p.Event)
		case "m":
			p.Properties = []byte(o.Raw())
		case "ms":
			p.MS = ReadInt(o)
		case "sc":
			p.Scroll = ReadInt(o)
		case "d":
			o.Exact(&p.UserID)
		case "a":
			o.Exact(&p.Auto)
		case "x":
			p.Manual = ReadInt(o) == 1
		}
	}

	if o.Err() != nil || p.Kind != KindPageview && p.Kind != KindEvent && p.Kind != KindEngagement {
		return &p, ErrBadJSON
	}

	return &p, nil
}

// ReadCampaign reads the campaign object. utm values are stored in lower case, click ids as they
// are. A click id without a utm_source sets source and medium (analytics contract, section 2).
func ReadCampaign(o *jsonbody.Object, c *model.Campaign) {
	if !o.Enter() {
		return
	}

	for o.Next() {
		switch field, isClickID := CampaignField(c, o.Key()); {
		case field == nil:
		case isClickID:
			o.Text(field, MaxClickID)
		default:
			readLower(o, field)
		}
	}

	*c = channel.Complete(*c)
}

// CampaignField returns the field of a campaign by its name in a message, which is the name of the
// page's parameter, for utm parameters without utm_. It returns nil for another name.
func CampaignField(c *model.Campaign, name string) (field *string, isClickID bool) {
	switch name {
	case "source":
		return &c.Source, false
	case "medium":
		return &c.Medium, false
	case "campaign":
		return &c.Name, false
	case "content":
		return &c.Content, false
	case "term":
		return &c.Term, false

	case "gclid":
		return &c.Gclid, true
	case "gbraid":
		return &c.Gbraid, true
	case "wbraid":
		return &c.Wbraid, true
	case "fbclid":
		return &c.Fbclid, true
	case "msclkid":
		return &c.Msclkid, true
	}

	return nil, false
}

// readLower reads a utm value.
func readLower(o *jsonbody.Object, s *string) {
	o.Text(s, MaxCampaign)
	*s = strings.ToLower(strings.TrimSpace(*s))
}

// ReadInt reads a number as an integer, clamped to 32 bits. It returns 0 for another JSON type.
func ReadInt(o *jsonbody.Object) int {
	number := o.Number()
	if number == "" {
		return 0
	}

	// A number beyond float64 is read as infinity.
	f, _ := strconv.ParseFloat(number, 64)
	return int(max(math.MinInt32, min(f, math.MaxInt32)))
}
