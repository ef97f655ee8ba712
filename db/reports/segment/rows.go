package segment

import (
	"context"
	"fmt"
	"time"

	"github.com/tallygate/tallygate/db/model"
)

// BounceBelow is the time in view from which a visit with one page view is no bounce.
const BounceBelow = 10 * time.Second

// Rows are the stored rows of one site and UTC day, in any order.
type Rows struct {
	Day    model.Day
	Visits []Visit
	Views  []View
	Events []Event
}

// VisitKey names a visit of the day: the visitor's n-th.
type VisitKey struct {
	Visitor model.VisitorID
	N       int16
}

// Visit is a stored visit.
type Visit struct {
	VisitKey
	StartedAt model.Instant
	UserID    string // keyed hash, 16 bytes; empty for none
	Channel   string
	Referrer  string // host and path; empty for none
	Client    model.Client
	model.Campaign
}

// View is a stored page view.
type View struct {
	VisitKey
	At        model.Instant
	ID        int64 // breaks ties of At
	Path      string
	Language  string
	Width     int16 // see model.WidthRangeName
	EngagedMS int32
	Scroll    int16
}

// Event is a stored event.
type Event struct {
	VisitKey
	At         model.Instant
	ID         int64 // breaks ties of At
	Name       string
	Path       string
	Value      model.Money
	Currency   string // empty: the event has no value
	Properties string // JSON object; empty for none
}

// Build makes the segment of one day from rows in memory. A page view or event whose visit is
// missing is an error: the caller read an inconsistent state.
func Build(rows Rows) (*Segment, error) {
	return BuildDay(context.Background(), rows.Day, 0, rows.addTo)
}

// addTo adds the rows to a builder.
func (r *Rows) addTo(d *DayBuilder) error {
	for i := range r.Visits {
		v := &r.Visits[i]
		d.AddVisit(v.VisitKey, v.StartedAt, []byte(v.UserID), v.Channel, d.Origin(v.Referrer, &v.Campaign), d.Client(&v.Client))
	}

	for i := range r.Views {
		v := &r.Views[i]
		n, ok := d.AddView(v.VisitKey, v.At, v.ID, []byte(v.Path), []byte(v.Language), v.Width)
		switch {
		case ok:
			d.SetEngagement(n, v.EngagedMS, v.Scroll)
		case !d.Counts():
			return fmt.Errorf("page view: %w", errNoVisit)
		}
	}

	for i := range r.Events {
		e := &r.Events[i]
		if !d.AddEvent(e.VisitKey, e.At, e.ID, []byte(e.Name), []byte(e.Path), []byte(e.Currency), e.Value, []byte(e.Properties)) {
			return fmt.Errorf("event: %w", errNoVisit)
		}
	}
	return d.Err()
}
