// Package foreign reads the bodies that other products' own code sends to their collection paths,
// and translates them into the message of collect. Of the address of a page it keeps the path and
// the campaign alone: query, fragment and title are cut here, before anything logs, counts or
// stores them. It is pure.
//
// Each product has a decoder: plausible.go and umami.go. address.go and names.go hold the rules that
// they share.
package foreign

import (
	"strings"

	"github.com/go-json-experiment/json/jsontext"

	"github.com/tallygate/tallygate/dataplane/analytics/payload"
	"github.com/tallygate/tallygate/dataplane/jsonbody"
	"github.com/tallygate/tallygate/db/model"
)

// Decoder reads the body of a call. It returns one item, or an item for each element of a batch.
type Decoder func(text []byte) []Item

// Item is a translated message. With an error, which is payload.ErrBadJSON, the payload has the
// members before the fault.
type Item struct {
	Payload *payload.Payload
	Err     error
}

// siteKeyIn returns the site key among the ids of a body, or an empty string. Hyphens are ignored,
// since some programs accept an id in the form of a UUID only.
func siteKeyIn(ids string) string {
	for id := range strings.SplitSeq(ids, ",") {
		if key := strings.ReplaceAll(strings.TrimSpace(id), "-", ""); model.IsSiteKey(key) {
			return key
		}
	}
	return ""
}

// readObject reads an object as JSON text. Some clients send the object as a text that contains
// JSON. A value of another type leaves object unchanged.
func readObject(o *jsonbody.Object, object *[]byte) {
	var text string
	switch o.Kind() {
	case '{':
		text = o.Raw()
	case '"':
		o.Exact(&text)
	}

	value := jsontext.Value(strings.TrimSpace(text))
	if value.Kind() == '{' && value.IsValid(jsontext.AllowDuplicateNames(true), jsontext.AllowInvalidUTF8(true)) {
		*object = value
	}
}

// ignore makes a payload that stores nothing: an engagement report without a page view id. The
// checks before storing still apply.
func ignore(p *payload.Payload) { p.Kind, p.Path = payload.KindEngagement, "/" }
