package rules

import (
	"time"

	"github.com/tallygate/tallygate/db/model"
)

// Calls are calls of a site's endpoints in a time. Refused has no calls that are ignored on
// purpose.
type Calls struct {
	Accepted, Refused int64
	Since             model.Instant
}

// The thresholds of refused calls.
const (
	refusedBegins = 20 // percent of all calls
	refusedEnds   = 10
	leastRefused  = 100
	fewRefused    = 10
)

// CallsRefused finds a share of refused calls that people do not cause by chance.
func CallsRefused(c Calls) Finding {
	all := c.Accepted + c.Refused
	found := Finding{Reading: Between, Figures: model.AlertFigures{Value: c.Refused, Threshold: refusedBegins, Since: c.Since}}
	if all > 0 {
		found.Figures.Percent = percent(c.Refused, all)
	}

	switch {
	case c.Refused >= leastRefused && share(c.Refused, all) >= refusedBegins:
		found.Reading = Unusual
	case c.Refused < fewRefused || share(c.Refused, all) <= refusedEnds:
		found.Reading = Usual
	}
	return found
}

// share returns the percentage of a part, without rounding.
func share(part, all int64) float64 {
	if all == 0 {
		return 0
	}
	return float64(part) * 100 / float64(all)
}

// percent returns the percentage of a part, rounded down, and at least 1 for a part of any size.
func percent(part, all int64) int64 {
	if part == 0 {
		return 0
	}
	return max(1, int64(share(part, all)))
}

// Deliveries are the finished deliveries of one webhook of a site. Tests of the webhook are not
// among them.
type Deliveries struct {
	Failed    int64         // created within DeliveryDays, and counted up to a bound
	First     model.Instant // creation of the first of them
	Newest    model.Instant // creation of the newest of them
	Delivered model.Instant // creation of the newest delivery that was made; 0: none
	IsToday   bool          // a delivery has failed for good on this UTC day
}

// DeliveryDays is how old failed deliveries are read. A delivery can fail for good a day after its
// creation.
const DeliveryDays = 3

// DeliveriesFailed finds a webhook with deliveries that have failed for good. It is usual again on
// a day without such a failure, after a delivery that is newer than all failed ones, or after
// DeliveryDays.
func DeliveriesFailed(d Deliveries) Finding {
	found := Finding{Reading: Usual, Figures: model.AlertFigures{Value: d.Failed, Since: d.First}}
	if d.Failed > 0 && (d.IsToday || d.Newest >= d.Delivered) {
		found.Reading = Unusual
	}
	return found
}

// CaptchaAttack finds an attack on a sitekey.
func CaptchaAttack(attack model.CaptchaAttack, now model.Instant) Finding {
	found := Finding{Reading: Usual, Figures: model.AlertFigures{Value: attack.Networks, Usual: attack.Usual, Since: attack.Since}}
	if attack.LevelAt(now) > 0 {
		found.Reading = Unusual
	}
	return found
}

// Task is how the runs of a periodic task, or attempts of another kind of work of the installation,
// ended lately.
type Task struct {
	Failures int           // since the last success
	Since    model.Instant // the first of them
}

// The thresholds of failing tasks.
const (
	taskFailures = 3
	taskFailing  = 10 * time.Minute
)

// JobsFailed finds a task that fails again and again.
func JobsFailed(t Task, now model.Instant) Finding {
	found := Finding{Reading: Usual, Figures: model.AlertFigures{Value: int64(t.Failures), Since: t.Since}}
	switch {
	case t.Failures >= taskFailures && now.Sub(t.Since) >= taskFailing:
		found.Reading = Unusual
	case t.Failures > 0:
		found.Reading = Between
	}
	return found
}

// QuotasUsed finds an installation with quotas of the month that are used to 80 % or more. An alert
// lasts until the month ends or the plans are larger.
func QuotasUsed(n int) Finding {
	found := Finding{Reading: Usual, Figures: model.AlertFigures{Value: int64(n)}}
	if n > 0 {
		found.Reading = Unusual
	}
	return found
}

// The thresholds of backups.
const (
	backupBegins = 48 * time.Hour
	backupEnds   = 36 * time.Hour
)

// BackupLate finds an installation without a recent backup. An installation that has never recorded
// one gives no alarm: its backups may be made by other means.
func BackupLate(last, now model.Instant) Finding {
	if last == 0 {
		return Finding{}
	}

	found := Finding{Reading: Between, Figures: model.AlertFigures{Since: last}}
	switch age := now.Sub(last); {
	case age >= backupBegins:
		found.Reading = Unusual
	case age < backupEnds:
		found.Reading = Usual
	}
	return found
}
