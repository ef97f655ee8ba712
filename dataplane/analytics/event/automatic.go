package event

import (
	"strings"

	"github.com/tallygate/tallygate/db/model"
)

// Limits of the texts of automatic events, in characters. Longer ones are cut.
const (
	maxFile = 2_048 // like a path
	maxExt  = 16    // the contract's longest is four
	maxTerm = 100   // analytics contract, section 8
)

// maxPercent is 100 as model.Money.
const maxPercent = 100 * model.Money(1_000_000)

// automaticProperties is the contract's table of automatic events (section 2): the reader of each
// property of each event. Other properties are dropped.
var automaticProperties = map[string]map[string]func(r *reader, key string) error{
	model.EventOutboundClick: {"host": (*reader).keepHost},
	model.EventFileDownload:  {"file": keepText(maxFile), "ext": keepText(maxExt)},
	model.EventScroll:        {"percent": (*reader).keepPercent},
	model.EventSiteSearch:    {"term": keepText(maxTerm)},
}

// automatic keeps exactly the event's own properties. A property of the wrong type is dropped like
// an unknown one, since the event still happened.
func (r *reader) automatic(name string, domains []string) (Accepted, error) {
	known := automaticProperties[name]
	err := r.properties(func(key string) error {
		if keep := known[key]; keep != nil {
			return keep(r, key)
		}
		return r.in.SkipValue()
	})
	if err != nil {
		r.dropped = true
	}

	if r.host != "" && model.HostBelongs(r.host, domains) {
		return Accepted{}, ErrOwnLink
	}

	return Accepted{Name: name, Properties: r.result()}, nil
}

// keepText returns a reader of a text that is cut to limit characters.
func keepText(limit int) func(r *reader, key string) error {
	return func(r *reader, key string) error {
		text, ok, err := r.text()
		if ok {
			r.writeText(key, model.Storable(text, limit))
		}
		return err
	}
}

// keepHost keeps a host in its normalised form, so that a host is one row of a report. Of an
// address it keeps the host. A text without a host is dropped, since it may contain personal data.
func (r *reader) keepHost(key string) error {
	text, ok, err := r.text()
	if !ok {
		return err
	}
	if r.host, ok = hostOf(text); ok {
		r.writeText(key, r.host)
	}

	return nil
}

// hostOf returns the normalised host of an address, with or without scheme, port and path.
func hostOf(text string) (string, bool) {
	if scheme, rest, ok := strings.Cut(text, ":/"); ok && !strings.ContainsAny(scheme, "./?#") {
		text = strings.TrimLeft(rest, "/")
	}
	return model.OriginHost("https://" + strings.TrimPrefix(text, "//"))
}

// keepPercent keeps a number from 0 to 100.
func (r *reader) keepPercent(key string) error {
	n, ok, err := r.number(maxPercent)
	if ok {
		r.writeNumber(key, n)
	}
	return err
}
