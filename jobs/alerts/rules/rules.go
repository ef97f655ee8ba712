// Package rules decides when an alert begins and ends. Its rules are functions of figures and of
// time: they read no clock and no database.
//
// A rule has one threshold to begin and a lower one to end, and an alert ends only after it has
// been calm for some time. So figures near a threshold cause one message and not a series.
package rules

import (
	"time"

	"github.com/tallygate/tallygate/db/model"
)

// Reading is what a rule finds in its figures.
type Reading int

// The readings. Unsure is for too few figures.
const (
	Unsure  Reading = iota
	Usual           // below the threshold to end
	Between         // an alert continues, and none begins
	Unusual         // at or above the threshold to begin
)

// Finding is a reading, and the figures for messages.
type Finding struct {
	Reading Reading
	Figures model.AlertFigures

	Before, After Span // the times that are compared; zero without page views to compare
}

// Step is what happens to an alert.
type Step int

// The steps.
const (
	None  Step = iota
	Begin      // it begins
	See        // its rule holds: the time of SeenAt becomes now
	End        // it ends
)

// staleAfter ends an alert without evidence for or against it.
const staleAfter = 72 * time.Hour

// calm is how long the figures are usual before an alert ends.
var calm = map[model.AlertEvent]time.Duration{
	model.AlertTrafficSpike: 30 * time.Minute, model.AlertTrafficDrop: 30 * time.Minute,
	model.AlertNoHits: 15 * time.Minute, model.AlertCallsRefused: time.Hour,
	model.AlertDeliveriesFailed: time.Hour, model.AlertCaptchaAttack: 30 * time.Minute,
	model.AlertJobsFailed: 30 * time.Minute, model.AlertCertificateFailed: 0,
	model.AlertQuotasUsed: 0,
}

// Next returns the next step of an alert; open is nil if none lasts.
func Next(event model.AlertEvent, reading Reading, open *model.Alert, now model.Instant) Step {
	if open == nil {
		if reading == Unusual {
			return Begin
		}
		return None
	}

	// The clock was set back: count from now on, so that the alert can end.
	if open.SeenAt > now {
		return See
	}

	since := now.Sub(open.SeenAt)
	switch {
	case reading == Unusual || reading == Between:
		return See
	case reading == Usual && since >= calm[event]:
		return End
	case since >= staleAfter:
		return End
	}
	return None
}
