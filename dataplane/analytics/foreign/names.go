package foreign

import (
	"encoding/json"
	"path"
	"slices"
	"strings"

	"github.com/tallygate/tallygate/dataplane/analytics/event"
	"github.com/tallygate/tallygate/dataplane/analytics/payload"
	"github.com/tallygate/tallygate/dataplane/jsonbody"
	"github.com/tallygate/tallygate/db/model"
)

const (
	maxName   = 48     // analytics contract, section 8
	ownPrefix = "own_" // of a page's own event with the name of one of ours
)

// automatic are the automatic events of other products that are ours, each with a function that
// makes our properties of the address in theirs.
var automatic = map[string]struct {
	name       string
	properties func(address string) map[string]string
}{
	"Outbound Link: Click": {model.EventOutboundClick, hostOf},
	"File Download":        {model.EventFileDownload, fileOf},
}

// hostOf returns the properties of an outbound click to an address.
func hostOf(address string) map[string]string {
	host, ok := model.OriginHost(address)
	if !ok {
		return nil
	}
	return map[string]string{"host": host}
}

// fileOf returns the properties of a download from an address.
func fileOf(address string) map[string]string {
	file := path.Base(pathOf(address))
	if file == "." || file == "/" {
		return nil
	}
	return map[string]string{"file": file, "ext": strings.ToLower(strings.TrimPrefix(path.Ext(file), "."))}
}

// setEvent makes the payload an event of a name that another product's code sent. properties is the
// JSON text of an object, or nil.
//
// A page's own event with the name of an automatic event gets a prefix, since it means something
// else. An event with the name of an e-commerce event is that event if it has the required fields.
func setEvent(p *payload.Payload, name string, properties []byte) {
	p.Kind = payload.KindEvent

	if ours, ok := automatic[name]; ok {
		p.Event, p.Properties = ours.name, nil
		if made := ours.properties(withoutQuery(textOf(properties, "url"))); made != nil {
			p.Properties, _ = json.Marshal(made)
		}
		return
	}

	p.Event, p.Properties = nameOf(name), properties
	if model.IsAutomaticEvent(p.Event) || model.IsEcommerceEvent(p.Event) && !hasRequired(p.Event, properties) {
		p.Event = ownPrefix + p.Event
	}
}

// hasRequired reports whether properties have the required fields of an e-commerce event. Whether
// the fields are readable is checked later, so that the owner gets bad_event with the field.
func hasRequired(name string, properties []byte) bool {
	missing := event.Required(name)
	o := jsonbody.Open(properties)
	defer o.Close()

	for o.Next() {
		missing = slices.DeleteFunc(missing, func(field string) bool { return field == o.Key() })
	}
	return len(missing) == 0
}

// nameOf returns a name in our form: in lower case, with one underscore for each run of other
// characters, none at the ends, and at most 48 characters. For example, "Signup Button!" is
// signup_button. The name is empty if nothing remains, which collect refuses as unknown_event.
func nameOf(name string) string {
	b := make([]byte, 0, maxName)
	inRun := false

	for _, r := range strings.ToLower(name) {
		switch {
		case isNameRune(r):
			b = append(b, byte(r))
		case !inRun:
			b = append(b, '_')
		}
		inRun = !isNameRune(r)
	}

	ours := strings.Trim(string(b), "_")
	return strings.TrimRight(ours[:min(len(ours), maxName)], "_")
}

func isNameRune(r rune) bool {
	return 'a' <= r && r <= 'z' || '0' <= r && r <= '9' || r == '_' || r == '-'
}

// textOf returns a text among the members of an object, or an empty text.
func textOf(object []byte, key string) (text string) {
	o := jsonbody.Open(object)
	defer o.Close()

	for o.Next() {
		if o.Key() == key {
			o.Exact(&text)
		}
	}
	return text
}
