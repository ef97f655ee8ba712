package analytics

import (
	"bytes"
	"io"
	"math"
	"strconv"
	"strings"
	"sync"

	"github.com/go-json-experiment/json/jsontext"

	"github.com/tallygate/tallygate/dataplane/analytics/channel"
	"github.com/tallygate/tallygate/db/model"
)

// Limits of what is kept of a payload's texts, in characters. Longer ones are cut, so a text of fixed length is read with
// one character more.
const (
	maxKey      = 65 // names, keys, ids
	maxCampaign = 200
	maxClickID  = 512
	maxText     = maxBody // cut later, by its own rule
)

// payload is the collection payload (analytics contract, section 2) as it was sent, with its texts cleaned. A key whose
// value has the wrong JSON type counts as absent.
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

// parsePayload reads a collection payload, which must name one of the three kinds.
func parsePayload(body []byte) (*payload, error) {
	var p payload
	if err := parseObject(body, p.member); err != nil {
		return nil, err
	}
	if p.kind != kindPageview && p.kind != kindEvent && p.kind != kindEngagement {
		return nil, errBadJSON
	}
	return &p, nil
}

func (p *payload) member(d *jsontext.Decoder, key string) error {
	switch key {
	case "k":
		return readText(d, &p.siteKey, maxKey)
	case "t":
		return readText(d, &p.kind, maxKey)
	case "p":
		return readText(d, &p.path, maxText)
	case "r":
		return readText(d, &p.referrer, maxText)
	case "i":
		return readText(d, &p.pageviewID, maxKey)
	case "u":
		return readCampaign(d, &p.campaign)
	case "w":
		return readNumber(d, &p.width)
	case "l":
		return readText(d, &p.language, maxKey)
	case "e":
		return readText(d, &p.event, maxKey)
	case "m":
		return readRaw(d, &p.properties)
	case "ms":
		return readNumber(d, &p.ms)
	case "sc":
		return readNumber(d, &p.scroll)
	case "d":
		return readText(d, &p.userID, maxKey)
	case "a":
		return readText(d, &p.auto, maxKey)
	case "x":
		var x int
		err := readNumber(d, &x)
		p.manual = x == 1
		return err
	}
	return d.SkipValue()
}

// readCampaign reads the campaign object. utm values are kept in lower case; click ids stay as they are. A click id
// without a utm_source sets source and medium (analytics contract, section 2).
func readCampaign(d *jsontext.Decoder, c *model.Campaign) error {
	if d.PeekKind() != '{' {
		return d.SkipValue()
	}
	err := eachMember(d, func(d *jsontext.Decoder, key string) error {
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
			return readText(d, &c.Gclid, maxClickID)
		case "gbraid":
			return readText(d, &c.Gbraid, maxClickID)
		case "wbraid":
			return readText(d, &c.Wbraid, maxClickID)
		case "fbclid":
			return readText(d, &c.Fbclid, maxClickID)
		case "msclkid":
			return readText(d, &c.Msclkid, maxClickID)
		}
		return d.SkipValue()
	})
	*c = channel.Complete(*c)
	return err
}

var decoders = sync.Pool{New: func() any { return new(jsontext.Decoder) }}

// parseObject reads a body that is one JSON object, and calls member once per key with the decoder standing before its
// value. It is strict about JSON itself: nothing after the object, no key twice; keys count in their exact case. Bad UTF-8
// and lone surrogates become U+FFFD instead of an error, since a browser can produce them from a text that was cut in the
// middle of a character.
func parseObject(body []byte, member func(d *jsontext.Decoder, key string) error) error {
	d := decoders.Get().(*jsontext.Decoder)
	defer decoders.Put(d)
	d.Reset(bytes.NewReader(body), jsontext.AllowInvalidUTF8(true))
	if err := eachMember(d, member); err != nil {
		return errBadJSON
	}
	if _, err := d.ReadToken(); err != io.EOF {
		return errBadJSON
	}
	return nil
}

func eachMember(d *jsontext.Decoder, member func(d *jsontext.Decoder, key string) error) error {
	token, err := d.ReadToken()
	if err != nil {
		return err
	}
	if token.Kind() != '{' {
		return errBadJSON
	}
	for d.PeekKind() != '}' {
		key, err := d.ReadToken()
		if err != nil {
			return err
		}
		if err := member(d, key.String()); err != nil {
			return err
		}
	}
	_, err = d.ReadToken()
	return err
}

// readText reads a text, cleaned and cut to limit characters. Another JSON type leaves it empty.
func readText(d *jsontext.Decoder, s *string, limit int) error {
	if d.PeekKind() != '"' {
		return d.SkipValue()
	}
	token, err := d.ReadToken()
	if err != nil {
		return err
	}
	*s = model.Clean(token.String(), limit)
	return nil
}

func readLower(d *jsontext.Decoder, s *string) error {
	err := readText(d, s, maxCampaign)
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
	f, _ := strconv.ParseFloat(token.String(), 64) // a number beyond float64 arrives as infinity
	*n = int(max(math.MinInt32, min(f, math.MaxInt32)))
	return nil
}

// readRaw keeps a value as the JSON text it is.
func readRaw(d *jsontext.Decoder, raw *[]byte) error {
	value, err := d.ReadValue()
	*raw = bytes.Clone(value) // the decoder reuses its own
	return err
}
