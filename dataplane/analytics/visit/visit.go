// Package visit holds the rule that groups page views into visits (analytics contract, sections 1
// and 3). It is pure: the writer calls it under the site's lock.
package visit

import (
	"time"

	"github.com/tallygate/tallygate/db/model"
)

// Gap ends a visit: a page view this long or longer after the visitor's previous one starts a new
// visit.
const Gap = 30 * time.Minute

// MaxPerDay is how many visits a visitor has on one UTC day at most. The last one continues
// whatever comes: no person reaches it, and a client that invents campaigns does not multiply rows.
const MaxPerDay = 200

// Continues reports whether a page view at the given time belongs to the visitor's current visit.
// It does not when the gap has passed, or when the page view carries a utm_source or utm_campaign
// other than the visit's; values it does not carry never end a visit. A clock that stepped back
// makes the gap negative, which is no gap. The day's last visit (MaxPerDay) always continues.
//
// Visits never cross 00:00 UTC, without a rule here: the visitor's id changes then.
func Continues(current *model.Visit, at model.Instant, c *model.Campaign) bool {
	if current.N >= MaxPerDay {
		return true
	}
	return at.Sub(current.LastPageviewAt) < Gap &&
		!carriesOther(c.Source, current.Source) &&
		!carriesOther(c.Name, current.Name)
}

func carriesOther(carried, current string) bool { return carried != "" && carried != current }

// View counts a page view at the given moment in the visit. The moment of the last page view never
// moves back, so that a clock that steps back and forth does not tear a visit apart.
func View(v *model.Visit, at model.Instant) {
	v.LastPageviewAt = max(v.LastPageviewAt, at)
	v.Pageviews++
}
