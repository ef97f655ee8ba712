// Package visit holds the rules that group page views into visits (analytics contract, sections 1
// and 3). The writer calls it within the transaction that locks the site. It is pure.
package visit

import (
	"time"

	"github.com/tallygate/tallygate/db/model"
)

// Gap is the time without a page view that ends a visit: a page view at least Gap after the
// visitor's previous one starts a new visit.
const Gap = 30 * time.Minute

// MaxPerDay is the most visits of a visitor on one UTC day. The last one always continues. No
// person reaches it, and it bounds the rows of a client that sends made-up campaigns.
const MaxPerDay = 200

// Continues reports whether a page view at the given time belongs to the visitor's current visit.
// It does not after a Gap, or if the page view has a utm_source or utm_campaign other than the
// visit's. Values that the page view does not have never end a visit. A clock that stepped back
// ends no visit either. The day's last visit (MaxPerDay) always continues.
//
// Visits never cross 00:00 UTC, because the visitor's id changes then.
func Continues(current *model.Visit, at model.Instant, c *model.Campaign) bool {
	if current.N >= MaxPerDay {
		return true
	}
	return at.Sub(current.LastPageviewAt) < Gap &&
		!carriesOther(c.Source, current.Source) &&
		!carriesOther(c.Name, current.Name)
}

func carriesOther(carried, current string) bool { return carried != "" && carried != current }

// Overtaken is the longest time that a visit without page views counts as the visitor's current
// one. Within it, the page view of the event that opened the visit should arrive.
const Overtaken = 10 * time.Second

// IsSetAside reports whether only events belong to the visit, and none of their page views arrived
// in time. Other page views and events then skip the visit, so that an event with an invented page
// view id neither ends nor extends the visitor's other visits. The day's last visit (MaxPerDay) is
// never set aside.
func IsSetAside(v *model.Visit, at model.Instant) bool {
	return v.Pageviews == 0 && v.N < MaxPerDay && at.Sub(v.StartedAt) > Overtaken
}

// View counts a page view at the given time in the visit. The time of the last page view never
// moves back, so that a clock that steps back and forth does not split a visit.
func View(v *model.Visit, at model.Instant) {
	v.LastPageviewAt = max(v.LastPageviewAt, at)
	v.Pageviews++
}
