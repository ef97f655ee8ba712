package oracle

import (
	"cmp"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/tallygate/tallygate/db/model"
	"github.com/tallygate/tallygate/db/reports/segment"
)

// Row is a row of the export, of a page view or an event, as its JSON has it.
type Row struct {
	RowID     string `json:"row_id"`
	Time      time.Time
	Path      string
	VisitorID string    `json:"visitor_id"`
	VisitID   string    `json:"visit_id"`
	StartedAt time.Time `json:"visit_started_at"`
	Channel   string
	Referrer  string
	Source    string `json:"utm_source"`
	Medium    string `json:"utm_medium"`
	Campaign  string `json:"utm_campaign"`
	Content   string `json:"utm_content"`
	Term      string `json:"utm_term"`
	Gclid     string
	Gbraid    string
	Wbraid    string
	Fbclid    string
	Msclkid   string
	UserID    string `json:"user_id"`

	Country  string
	Browser  model.Browser
	System   model.System
	Device   model.Device
	Hostname string

	// Of a page view.
	Language string
	Width    string `json:"screen_width"`
	Engaged  int32  `json:"engaged_ms"`
	Scroll   int16  `json:"scroll_percent"`

	// Of an event.
	Event      string
	Value      json.Number
	Currency   string
	Properties json.RawMessage
}

// Days sorts the rows of an export into visits and days.
func Days(pageviews, events []Row) ([]segment.Rows, error) {
	d := &days{visits: make(map[string]*segment.Visit)}
	for i := range pageviews {
		if err := d.meet(&pageviews[i]); err != nil {
			return nil, err
		}
	}
	for i := range events {
		if err := d.meet(&events[i]); err != nil {
			return nil, err
		}
	}
	d.number()

	byDay := make(map[model.Day]*segment.Rows)
	of := func(day model.Day) *segment.Rows {
		if byDay[day] == nil {
			byDay[day] = &segment.Rows{Day: day}
		}
		return byDay[day]
	}
	for _, v := range d.visits {
		rows := of(v.StartedAt.Day())
		rows.Visits = append(rows.Visits, *v)
	}
	for i := range pageviews {
		view, err := d.view(&pageviews[i])
		if err != nil {
			return nil, err
		}
		rows := of(view.At.Day())
		rows.Views = append(rows.Views, view)
	}
	for i := range events {
		event, err := d.event(&events[i])
		if err != nil {
			return nil, err
		}
		rows := of(event.At.Day())
		rows.Events = append(rows.Events, event)
	}

	all := make([]segment.Rows, 0, len(byDay))
	for _, rows := range byDay {
		all = append(all, *rows)
	}
	slices.SortFunc(all, func(a, b segment.Rows) int { return cmp.Compare(a.Day, b.Day) })
	return all, nil
}

// days holds the visits of an export, by visitor and visit.
type days struct {
	visits map[string]*segment.Visit
}

func (r *Row) visit() string { return r.VisitorID + " " + r.VisitID }

// meet notes the visit of a row.
func (d *days) meet(r *Row) error {
	if d.visits[r.visit()] != nil {
		return nil
	}

	visitor, err := hex.DecodeString(strings.TrimPrefix(r.VisitorID, "v"))
	if err != nil {
		return fmt.Errorf("visitor %q: %w", r.VisitorID, err)
	}
	user, err := hex.DecodeString(r.UserID)
	if err != nil {
		return fmt.Errorf("user %q: %w", r.UserID, err)
	}

	v := &segment.Visit{StartedAt: model.At(r.StartedAt), UserID: string(user), Channel: r.Channel, Referrer: r.Referrer,
		Campaign: model.Campaign{Source: r.Source, Medium: r.Medium, Name: r.Campaign, Content: r.Content, Term: r.Term,
			Gclid: r.Gclid, Gbraid: r.Gbraid, Wbraid: r.Wbraid, Fbclid: r.Fbclid, Msclkid: r.Msclkid},
		Client: model.Client{Country: r.Country, Browser: r.Browser, System: r.System, Device: r.Device, Host: r.Hostname}}
	copy(v.Visitor[:], visitor)
	d.visits[r.visit()] = v
	return nil
}

// number numbers the visits of each visitor in the order of their starts. Ids that differ only in
// their last digits, which count, break a tie.
func (d *days) number() {
	keys := make([]string, 0, len(d.visits))
	for key := range d.visits {
		keys = append(keys, key)
	}
	slices.SortFunc(keys, func(a, b string) int {
		return cmp.Or(cmp.Compare(d.visits[a].StartedAt, d.visits[b].StartedAt), cmp.Compare(len(a), len(b)), strings.Compare(a, b))
	})

	count := make(map[model.VisitorID]int16)
	for _, key := range keys {
		v := d.visits[key]
		count[v.Visitor]++
		v.N = count[v.Visitor]
	}
}

// id returns the second half of the row's id, by which rows of the same time are ordered.
func (r *Row) id() (int64, error) {
	_, digits, _ := strings.Cut(r.RowID, "-")
	id, err := strconv.ParseUint(digits, 16, 64)
	return int64(id), err
}

func (d *days) view(r *Row) (segment.View, error) {
	id, err := r.id()
	if err != nil {
		return segment.View{}, fmt.Errorf("row %q: %w", r.RowID, err)
	}
	width, err := widthOf(r.Width)
	return segment.View{VisitKey: d.visits[r.visit()].VisitKey, At: model.At(r.Time), ID: id, Path: r.Path, Language: r.Language,
		Width: width, EngagedMS: r.Engaged, Scroll: r.Scroll}, err
}

// widthOf returns the lower bound of a range such as 768-991 or 1920+.
func widthOf(name string) (int16, error) {
	if name == "" {
		return model.UnknownWidth, nil
	}
	digits, _, _ := strings.Cut(strings.TrimSuffix(name, "+"), "-")
	bound, err := strconv.ParseInt(digits, 10, 16)
	if err != nil {
		return 0, fmt.Errorf("width %q: %w", name, err)
	}
	return int16(bound), nil
}

func (d *days) event(r *Row) (segment.Event, error) {
	id, err := r.id()
	if err != nil {
		return segment.Event{}, fmt.Errorf("row %q: %w", r.RowID, err)
	}

	e := segment.Event{VisitKey: d.visits[r.visit()].VisitKey, At: model.At(r.Time), ID: id, Name: r.Event, Path: r.Path,
		Currency: r.Currency}
	if string(r.Properties) != "null" {
		e.Properties = string(r.Properties)
	}
	if r.Value != "" {
		value, ok := model.ParseMoney(string(r.Value))
		if !ok {
			return segment.Event{}, fmt.Errorf("value %q", r.Value)
		}
		e.Value = value
	}
	return e, nil
}
