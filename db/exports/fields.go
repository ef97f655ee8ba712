package exports

import (
	"bytes"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"strconv"
	"strings"

	"github.com/go-json-experiment/json/jsontext"

	"github.com/tallygate/tallygate/db/model"
)

// Field is one column of a row. Its value is a string, int64, bool, model.Money, json.RawMessage,
// or nil if absent.
type Field struct {
	Name  string
	Value any
}

// Fields returns the columns of a page view, in order. The first one identifies the row and is the
// cursor for the rows after it.
func (p *Pageview) Fields() []Field {
	return append([]Field{
		{"row_id", rowID(p.At, p.ID)},
		{"time", timestamp(p.At)},
		{"pageview_id", hexID(p.ID)},
		{"path", p.Path},
		{"language", text(p.Language)},
		{"screen_width", text(model.WidthRangeName(p.WidthRange))},
		{"engaged_ms", int64(p.EngagedMS)},
		{"scroll_percent", int64(p.Scroll)},
		{"manual", p.Manual},
	}, visitFields(&p.Visit)...)
}

// Fields returns the columns of an event, in order.
func (e *Event) Fields() []Field {
	return append([]Field{
		{"row_id", rowID(e.At, e.ID)},
		{"time", timestamp(e.At)},
		{"event", e.Name},
		{"path", e.Path},
		{"value", money(e.Value)},
		{"currency", text(e.Currency)},
		{"transaction_id", text(e.TransactionID)},
		{"properties", object(e.Properties)},
	}, visitFields(&e.Visit)...)
}

// visitFields returns the columns of a row's visit, the same in every export.
func visitFields(v *Visit) []Field {
	return []Field{
		{"visitor_id", "v" + hex.EncodeToString(v.Visitor[:])}, // no spreadsheet takes it for a number
		{"visit_id", v.ID()},
		{"visit_started_at", timestamp(v.StartedAt)},
		{"visit_last_pageview_at", lastPageview(v)},
		{"visit_pageviews", int64(v.Pageviews)},

		// Where the visit came from.
		{"channel", string(v.Channel)},
		{"referrer", text(v.Referrer)},

		{"utm_source", text(v.Source)},
		{"utm_medium", text(v.Medium)},
		{"utm_campaign", text(v.Name)},
		{"utm_content", text(v.Content)},
		{"utm_term", text(v.Term)},

		{"gclid", text(v.Gclid)},
		{"gbraid", text(v.Gbraid)},
		{"wbraid", text(v.Wbraid)},
		{"fbclid", text(v.Fbclid)},
		{"msclkid", text(v.Msclkid)},

		{"user_id", text(hex.EncodeToString(v.UserID))},

		// What the visit keeps of its browser.
		{"country", text(v.Client.Country)},
		{"browser", text(string(v.Client.Browser))},
		{"system", text(string(v.Client.System))},
		{"device", text(string(v.Client.Device))},
		{"hostname", text(v.Client.Host)},
	}
}

// text returns s, or nil if it is empty.
func text(s string) any {
	if s == "" {
		return nil
	}
	return s
}

// money returns the amount, or nil.
func money(m *model.Money) any {
	if m == nil {
		return nil
	}
	return *m
}

// object returns a stored JSON object, or nil for "".
func object(s string) any {
	if s == "" {
		return nil
	}
	return json.RawMessage(s)
}

// lastPageview returns the time of a visit's last page view, or nil before its first one.
func lastPageview(v *Visit) any {
	if v.Pageviews == 0 {
		return nil
	}
	return timestamp(v.LastPageviewAt)
}

// timestamp formats a time in UTC, as RFC 3339 with microseconds.
func timestamp(i model.Instant) string { return i.Time().Format("2006-01-02T15:04:05.000000Z07:00") }

func hexID(id int64) string { return fmt.Sprintf("%016x", uint64(id)) }

// rowID returns the id of a row by its position in the order of the export.
func rowID(at model.Instant, id int64) string {
	return strconv.FormatInt(int64(at), 10) + "-" + hexID(id)
}

// ParseRowID parses the first column of a row.
func ParseRowID(s string) (*Cursor, bool) {
	at, id, ok := strings.Cut(s, "-")
	if !ok || len(id) != 16 {
		return nil, false
	}

	n, err := strconv.ParseInt(at, 10, 64)
	if err != nil || n < 0 {
		return nil, false
	}

	u, err := strconv.ParseUint(id, 16, 64)
	return &Cursor{At: model.Instant(n), ID: int64(u)}, err == nil
}

// AppendJSON appends a row as a JSON object to a buffer and returns the buffer.
func AppendJSON(to []byte, row []Field) ([]byte, error) {
	for i, f := range row {
		before := byte(',')
		if i == 0 {
			before = '{'
		}
		to = append(append(append(to, before, '"'), f.Name...), `":`...)

		var err error
		if to, err = appendValue(to, f.Value); err != nil {
			return nil, err
		}
	}

	return append(to, '}'), nil
}

// appendValue appends the value of a Field. It escapes what JSON requires and nothing else:
// json.Marshal would make a text of < six times as long, and so the body of a daily export.
func appendValue(to []byte, value any) ([]byte, error) {
	switch value := value.(type) {
	case string:
		// The only error is invalid UTF-8, which becomes U+FFFD.
		to, _ = jsontext.AppendQuote(to, value)
		return to, nil
	case json.RawMessage:
		buffer := bytes.NewBuffer(to)
		err := json.Compact(buffer, value)
		return buffer.Bytes(), err
	}

	encoded, err := json.Marshal(value)
	return append(to, encoded...), err
}
