package model

import "slices"

// AlertEvent is what an alert is about. A channel names the events that it wants.
type AlertEvent string

// The events of alerts. A new sign-in does not last: it begins and ends at once.
const (
	AlertTrafficSpike     AlertEvent = "traffic_spike"
	AlertTrafficDrop      AlertEvent = "traffic_drop"
	AlertNoHits           AlertEvent = "no_hits"
	AlertCallsRefused     AlertEvent = "calls_refused"
	AlertQuota            AlertEvent = "quota"
	AlertDeliveriesFailed AlertEvent = "deliveries_failed"
	AlertCaptchaAttack    AlertEvent = "captcha_attack"
	AlertNewSignIn        AlertEvent = "new_sign_in"

	// Events of the installation, which only an operator's channel can want.
	AlertJobsFailed        AlertEvent = "jobs_failed"
	AlertCertificateFailed AlertEvent = "certificate_failed"
	AlertQuotasUsed        AlertEvent = "quotas_used"
)

// AlertEvents lists all events, in the order in which they are shown.
var AlertEvents = []AlertEvent{
	AlertTrafficSpike, AlertTrafficDrop, AlertNoHits, AlertCallsRefused, AlertQuota, AlertDeliveriesFailed,
	AlertCaptchaAttack, AlertNewSignIn, AlertJobsFailed, AlertCertificateFailed, AlertQuotasUsed,
}

// siteAlerts are the events about one site. Other events concern the account or the installation.
var siteAlerts = []AlertEvent{
	AlertTrafficSpike, AlertTrafficDrop, AlertNoHits, AlertCallsRefused, AlertQuota, AlertDeliveriesFailed,
}

// OfSite reports whether the event is about one site, so that a site's channel can want it.
func (e AlertEvent) OfSite() bool { return slices.Contains(siteAlerts, e) }

// OfInstallation reports whether the event is about the installation, so that only operators can
// want it.
func (e AlertEvent) OfInstallation() bool {
	return e == AlertJobsFailed || e == AlertCertificateFailed || e == AlertQuotasUsed
}

// AlertPhase is what a message says about its alert.
type AlertPhase string

// The phases of an alert. AlertBoth stands for an alert that began and ended in a channel's quiet
// hours: one message has both times.
const (
	AlertBegun AlertPhase = "begun"
	AlertEnded AlertPhase = "ended"
	AlertBoth  AlertPhase = "both"
	AlertOnce  AlertPhase = "once" // of an event that does not last
)

// Alert is something that members of an account should know. At most one alert of the same account,
// site, sitekey, event and subject lasts.
type Alert struct {
	ID        int64        `bun:",pk,autoincrement"`
	AccountID AccountID    `bun:",nullzero"` // 0: the installation's
	SiteID    SiteID       `bun:",nullzero"` // 0: of no site
	SitekeyID SitekeyID    `bun:",nullzero"` // 0: of no sitekey
	Event     AlertEvent   `bun:",notnull"`
	Subject   string       `bun:",notnull"` // what else identifies it; shown to people, at most MaxAlertSubject
	BeganAt   Instant      `bun:",notnull"`
	EndedAt   Instant      `bun:",notnull"` // 0: it lasts
	SeenAt    Instant      `bun:",notnull"` // when its rule last held
	Details   AlertFigures `bun:",notnull"`
}

// MaxAlertSubject is how many characters of a subject messages show.
const MaxAlertSubject = 200

// AlertFigures are the figures of an alert. A field that the event does not have is zero.
//
//	visitors_above, visitors_below: Value and Threshold, visitors
//	traffic_spike, traffic_drop: Value and Usual, page views of an hour; Percent, Value of Usual
//	no_hits: Usual, page views of the time; Since, the last one
//	calls_refused: Value, refused calls; Percent, share of all calls
//	quota: Value and Threshold, page views or challenges; Percent, 80 or 100
//	deliveries_failed: Value, failed deliveries; Since, the first one
//	captcha_attack: Value and Usual, networks in ten minutes
//	jobs_failed: Value, failures in a row; Since, the first failure, or the last backup
//	certificate_failed: Since, when the certificate expires; 0: no certificate
//	quotas_used: Value, quotas that are used to 80 % or more
//	weekly, monthly: Change
type AlertFigures struct {
	Value     int64   `json:"value,omitempty"`
	Usual     int64   `json:"usual,omitempty"`
	Percent   int64   `json:"percent,omitempty"`
	Threshold int64   `json:"threshold,omitempty"`
	Since     Instant `json:"since,omitempty"`

	Change *Change `json:"change,omitempty"` // of traffic_spike, traffic_drop and summaries; nil: not known
}

// Change is why a figure differs between two times, as messages report it.
type Change struct {
	Metric string        `json:"metric"` // VISITS or PAGEVIEWS
	Before int64         `json:"before"`
	After  int64         `json:"after"`
	Causes []ChangeCause `json:"causes,omitempty"` // each among the visits of the one before
	Gap    *ChangeGap    `json:"gap,omitempty"`
}

// ChangeCause is a cause of a difference.
type ChangeCause struct {
	Names      []ChangeName `json:"names"` // of the same visits
	Difference int64        `json:"difference"`
}

// ChangeName is a value of a dimension; an empty one stands for visits without a value.
type ChangeName struct {
	By    ReportDimension `json:"by"`
	Value string          `json:"value,omitempty"`
}

// ChangeGap are hours without hits, in ChangeGapTime of the site's time zone.
type ChangeGap struct {
	From string `json:"from"`
	To   string `json:"to"`
}

// ChangeGapTime is the format of the times of a ChangeGap.
const ChangeGapTime = "2006-01-02 15:04"
