package export

import (
	"bufio"
	"encoding/csv"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"io"
	"strconv"
	"strings"

	"github.com/tallygate/tallygate/db"
	"github.com/tallygate/tallygate/db/model"
)

// field is one column of a row. Its value is a string, int64, bool, model.Money, json.RawMessage, or nil for nothing.
type field struct {
	name  string
	value any
}

// pageviewFields lists the columns of an exported page view, in order. The first one names the row and serves as the cursor
// for the rows after it.
func pageviewFields(p *db.ExportedPageview) []field {
	return append([]field{
		{"row_id", rowID(p.At, p.ID)},
		{"time", moment(p.At)},
		{"pageview_id", hexID(p.ID)},
		{"path", p.Path},
		{"language", text(p.Language)},
		{"screen_width", text(model.WidthRangeName(p.WidthRange))},
		{"engaged_ms", int64(p.EngagedMS)},
		{"scroll_percent", int64(p.Scroll)},
		{"manual", p.Manual},
	}, visitFields(&p.ExportedVisit)...)
}

// eventFields lists the columns of an exported event like pageviewFields those of a page view.
func eventFields(e *db.ExportedEvent) []field {
	return append([]field{
		{"row_id", rowID(e.At, e.ID)},
		{"time", moment(e.At)},
		{"event", e.Name},
		{"path", e.Path},
		{"value", money(e.Value)},
		{"currency", text(e.Currency)},
		{"transaction_id", text(e.TransactionID)},
		{"properties", object(e.Properties)},
	}, visitFields(&e.ExportedVisit)...)
}

// visitFields lists the columns of a row's visit, the same in every export.
func visitFields(v *db.ExportedVisit) []field {
	return []field{
		{"visitor_id", hex.EncodeToString(v.Visitor)},
		{"visit_id", strconv.FormatInt(v.VisitID, 36)},
		{"visit_started_at", moment(v.StartedAt)},
		{"visit_last_pageview_at", lastMoment(v.LastPageviewAt)},
		{"visit_pageviews", int64(v.Pageviews)},
		{"channel", v.Channel},
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
	}
}

// text is a column's text, or nil when there is none.
func text(s string) any {
	if s == "" {
		return nil
	}
	return s
}

// money is an amount, or nil when there is none.
func money(m *model.Money) any {
	if m == nil {
		return nil
	}
	return *m
}

// object is a stored JSON object, or nil when there is none.
func object(s string) any {
	if s == "" {
		return nil
	}
	return json.RawMessage(s)
}

// lastMoment is the moment of a visit's last page view, or nil before its first one.
func lastMoment(i model.Instant) any {
	if i == 0 {
		return nil
	}
	return moment(i)
}

func moment(i model.Instant) string { return i.Time().Format("2006-01-02T15:04:05.000000Z07:00") }

func hexID(id int64) string { return fmt.Sprintf("%016x", uint64(id)) }

// rowID names a row by its place in the order of the export.
func rowID(at model.Instant, id int64) string {
	return strconv.FormatInt(int64(at), 10) + "-" + hexID(id)
}

func parseRowID(s string) (*db.ExportCursor, bool) {
	at, id, ok := strings.Cut(s, "-")
	if !ok || len(id) != 16 {
		return nil, false
	}
	n, err := strconv.ParseInt(at, 10, 64)
	if err != nil || n < 0 {
		return nil, false
	}
	u, err := strconv.ParseUint(id, 16, 64)
	return &db.ExportCursor{At: model.Instant(n), ID: int64(u)}, err == nil
}

// rowWriter writes rows in one format.
type rowWriter interface {
	row([]field) error
	flush() error
	begun() bool // something may have been sent
	end() error
}

// output is what both formats share: a buffer, and the knowledge whether it ever ran over.
type output struct {
	*bufio.Writer
	sent sentFlag
}

// sentFlag notes the first write that goes through to the client.
type sentFlag struct {
	io.Writer
	yes bool
}

func (s *sentFlag) Write(p []byte) (int, error) {
	s.yes = true
	return s.Writer.Write(p)
}

func newOutput(w io.Writer) *output {
	o := &output{sent: sentFlag{Writer: w}}
	o.Writer = bufio.NewWriterSize(&o.sent, 32<<10)
	return o
}

func (o *output) begun() bool { return o.sent.yes }

// jsonRows writes one array of objects.
type jsonRows struct {
	*output
	rows int
}

func newJSONRows(w io.Writer) *jsonRows { return &jsonRows{output: newOutput(w)} }

func (j *jsonRows) row(row []field) error {
	separator := ",\n{"
	if j.rows == 0 {
		separator = "[\n{"
	}
	j.rows++
	_, err := j.WriteString(separator)
	for i, f := range row {
		if i > 0 {
			_ = j.WriteByte(',') // a buffered writer keeps its first error until Flush
		}
		value, marshalErr := json.Marshal(f.value)
		if marshalErr != nil {
			return marshalErr
		}
		_, _ = j.WriteString(`"` + f.name + `":`)
		_, _ = j.Write(value)
	}
	_ = j.WriteByte('}')
	return err
}

func (j *jsonRows) flush() error { return j.Flush() }

func (j *jsonRows) end() error {
	if j.rows == 0 {
		_ = j.WriteByte('[')
	}
	_, _ = j.WriteString("]\n")
	return j.Flush()
}

// csvRows writes RFC 4180 with a header line, also for no rows.
type csvRows struct {
	*output
	csv    *csv.Writer
	blank  []field // a row to take the columns' names from
	header bool
	record []string
}

func newCSVRows(w io.Writer, blank []field) *csvRows {
	o := newOutput(w)
	c := csv.NewWriter(o.Writer)
	c.UseCRLF = true
	return &csvRows{output: o, csv: c, blank: blank}
}

func (c *csvRows) row(row []field) error {
	if err := c.writeHeader(); err != nil {
		return err
	}
	c.record = c.record[:0]
	for _, f := range row {
		c.record = append(c.record, cell(f.value))
	}
	return c.csv.Write(c.record)
}

func (c *csvRows) writeHeader() error {
	if c.header {
		return nil
	}
	c.header = true
	names := make([]string, len(c.blank))
	for i, f := range c.blank {
		names[i] = f.name
	}
	return c.csv.Write(names)
}

func (c *csvRows) flush() error {
	c.csv.Flush()
	return c.csv.Error()
}

func (c *csvRows) end() error {
	if err := c.writeHeader(); err != nil {
		return err
	}
	if err := c.flush(); err != nil {
		return err
	}
	return c.Flush()
}

// cell writes a value for a spreadsheet. A text that a spreadsheet would run as a formula gets a leading apostrophe;
// numbers stay numbers.
func cell(value any) string {
	switch v := value.(type) {
	case string:
		if v != "" && strings.ContainsRune("=+-@\t\r", rune(v[0])) {
			return "'" + v
		}
		return v
	case int64:
		return strconv.FormatInt(v, 10)
	case bool:
		return strconv.FormatBool(v)
	case model.Money:
		return v.String()
	case json.RawMessage: // an object begins with a brace
		return string(v)
	}
	return ""
}
