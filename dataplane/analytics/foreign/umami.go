package foreign

import (
	"bytes"
	"io"
	"strconv"
	"strings"

	"github.com/go-json-experiment/json/jsontext"

	"github.com/tallygate/tallygate/dataplane/analytics/payload"
	"github.com/tallygate/tallygate/dataplane/jsonbody"
	"github.com/tallygate/tallygate/db/model"
)

// umami is the body of Umami's POST /api/send. A member with a value of the wrong JSON type counts
// as absent.
type umami struct {
	kind string // type

	// The members of payload.
	website string
	address string // url
	name    string // of an event; empty: a page view
	data    []byte
	screen  string // such as 1920x1080
	id      string
}

// Umami is the Decoder of Umami's bodies. Session data and performance reports store nothing.
func Umami(text []byte) []Item { return []Item{umamiItem(text)} }

// umamiItem reads a body, or an element of a batch.
func umamiItem(text []byte) Item {
	var b umami
	var p payload.Payload
	err := b.read(text, &p)
	p.SiteKey = siteKeyIn(b.website)

	switch {
	case err != nil:
		return Item{&p, payload.ErrBadJSON}
	case b.kind == "identify", b.kind == "performance":
		ignore(&p)
		return Item{&p, nil}
	case b.kind != "event":
		return Item{&p, payload.ErrBadJSON}
	}

	setPage(&p, b.address, false)
	width, _, _ := strings.Cut(b.screen, "x")
	p.Width, _ = strconv.Atoi(width)

	// Another form of id may be a name or an e-mail address.
	if id := strings.ToLower(b.id); model.IsUserID(id) {
		p.UserID = id
	}

	if b.name == "" {
		p.Kind = payload.KindPageview
	} else {
		setEvent(&p, b.name, b.data)
	}

	return Item{&p, nil}
}

// read reads the members of a body. Members that need no translation go to the payload.
func (b *umami) read(text []byte, p *payload.Payload) error {
	o := jsonbody.Open(text)
	defer o.Close()

	for o.Next() {
		switch o.Key() {
		case "type":
			o.Exact(&b.kind)
		case "payload":
			b.readPayload(o, p)
		}
	}

	return o.Err()
}

func (b *umami) readPayload(o *jsonbody.Object, p *payload.Payload) {
	if !o.Enter() {
		return
	}

	for o.Next() {
		switch o.Key() {
		case "website":
			o.Exact(&b.website)
		case "url":
			o.Exact(&b.address)
		case "referrer":
			o.Text(&p.Referrer, payload.MaxText)
		case "name":
			o.Exact(&b.name)
		case "data":
			readObject(o, &b.data)
		case "screen":
			o.Exact(&b.screen)
		case "language":
			o.Text(&p.Language, payload.MaxLanguage)
		case "id":
			o.Exact(&b.id)
		}
	}

	p.Referrer = withoutQuery(p.Referrer)
}

// UmamiBatch is the Decoder of Umami's batches: lists of its bodies. A malformed list is one item
// with an error, so that nothing of it is stored.
func UmamiBatch(text []byte) []Item {
	d := jsontext.NewDecoder(bytes.NewReader(text), jsontext.AllowDuplicateNames(true), jsontext.AllowInvalidUTF8(true))
	if d.PeekKind() != '[' {
		return malformed(nil)
	}
	_, _ = d.ReadToken()

	var items []Item
	for d.PeekKind() != ']' {
		body, err := d.ReadValue()
		if err != nil {
			return malformed(items)
		}
		items = append(items, umamiItem(body))
	}

	_, _ = d.ReadToken()
	if _, err := d.ReadToken(); err != io.EOF || len(items) == 0 {
		return malformed(items)
	}
	return items
}

// malformed returns the item of a list that is cut off or empty, or that is not JSON. The first
// body names the site.
func malformed(items []Item) []Item {
	p := new(payload.Payload)
	if len(items) > 0 {
		p.SiteKey = items[0].Payload.SiteKey
	}
	return []Item{{p, payload.ErrBadJSON}}
}
