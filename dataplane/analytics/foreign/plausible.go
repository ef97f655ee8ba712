package foreign

import (
	"bytes"

	"github.com/go-json-experiment/json/jsontext"

	"github.com/tallygate/tallygate/dataplane/analytics/payload"
	"github.com/tallygate/tallygate/dataplane/jsonbody"
)

// The names that Plausible's code gives to page views and to engagement reports.
const (
	plausiblePageview   = "pageview"
	plausibleEngagement = "engagement"
)

// plausible is the body of Plausible's POST /api/event, with its short or long names. A member with
// a value of the wrong JSON type counts as absent.
type plausible struct {
	name       string // n, name
	address    string // u, url
	domains    string // d, domain; a list with commas
	hash       string // h, hashMode; JSON text
	properties []byte // p, props, m, meta
	revenue    []byte // $, revenue
}

// Plausible is the Decoder of Plausible's bodies. Engagement reports store nothing, because they
// name no page view.
func Plausible(text []byte) []Item {
	var b plausible
	var p payload.Payload
	err := b.read(text, &p)
	p.SiteKey = siteKeyIn(b.domains)

	if err != nil || b.name == "" {
		return []Item{{&p, payload.ErrBadJSON}}
	}

	setPage(&p, b.address, b.hash == "1" || b.hash == "true")

	switch b.name {
	case plausiblePageview:
		p.Kind = payload.KindPageview
	case plausibleEngagement:
		ignore(&p)
	default:
		setEvent(&p, b.name, withRevenue(b.properties, b.revenue))
	}

	return []Item{{&p, nil}}
}

// read reads the members of a body. Members that need no translation go to the payload.
func (b *plausible) read(text []byte, p *payload.Payload) error {
	o := jsonbody.Open(text)
	defer o.Close()

	for o.Next() {
		switch o.Key() {
		case "n", "name":
			o.Exact(&b.name)
		case "u", "url":
			o.Exact(&b.address)
		case "d", "domain":
			o.Exact(&b.domains)
		case "r", "referrer":
			o.Text(&p.Referrer, payload.MaxText)
		case "w", "screen_width":
			p.Width = payload.ReadInt(o)
		case "h", "hashMode":
			b.hash = o.Raw()
		case "p", "props", "m", "meta":
			readObject(o, &b.properties)
		case "$", "revenue":
			readObject(o, &b.revenue)
		}
	}

	p.Referrer = withoutQuery(p.Referrer)
	return o.Err()
}

// withRevenue returns the properties of an event with its revenue as value and currency. An amount
// may be a text, for example "19.90".
func withRevenue(properties, revenue []byte) []byte {
	if revenue == nil {
		return properties
	}

	var amount, currency string
	o := jsonbody.Open(revenue)
	defer o.Close()

	for o.Next() {
		switch {
		case o.Key() == "currency":
			o.Exact(&currency)
		case o.Key() == "amount" && o.Kind() == '"':
			o.Exact(&amount)
		case o.Key() == "amount":
			amount = o.Number()
		}
	}

	number := jsontext.Value(amount)
	if number.Kind() != '0' || !number.IsValid() || currency == "" {
		return properties
	}

	// Of two equal keys the last one counts, so that the revenue replaces equal names of the page.
	with := []byte("{")
	if members := bytes.Trim(properties, "{} \t\r\n"); len(members) > 0 {
		with = append(bytes.TrimSuffix(bytes.Clone(properties), []byte("}")), ',')
	}

	with = append(with, `"value":`...)
	with = append(append(with, number...), `,"currency":`...)
	with, _ = jsontext.AppendQuote(with, currency)
	return append(with, '}')
}
