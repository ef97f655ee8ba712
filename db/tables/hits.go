package tables

import (
	"slices"

	"github.com/tallygate/tallygate/db/model"
)

type (
	visit       = model.Visit
	pageview    = model.Pageview
	event       = model.Event
	transaction = model.Transaction
	delivery    = model.Delivery
)

// The columns of visits, grouped by what reads them back while a batch is decided.
var (
	// VisitKey is the primary key of visits.
	VisitKey = Columns[visit]{
		Bigint("site_id", func(v *visit) *int64 { return &v.SiteID }),
		Bigint("id", func(v *visit) *int64 { return &v.ID }),
	}

	// VisitChanging are the columns that later hits of a visit change.
	VisitChanging = Columns[visit]{
		Bigint("last_pageview_at", func(v *visit) *model.Instant { return &v.LastPageviewAt }),
		Integer("pageviews", func(v *visit) *int32 { return &v.Pageviews }),
		OptionalBytes("recent", func(v *visit) *[]byte { return &v.Recent }),
		OptionalBytes("awaited", func(v *visit) *[]byte { return &v.Awaited }),
		OptionalBytes("user_id", func(v *visit) *[]byte { return &v.UserID }),
	}

	// visitRule are the other columns that decide whether a hit continues the visit.
	visitRule = Columns[visit]{
		Bigint("started_at", func(v *visit) *model.Instant { return &v.StartedAt }),
		Smallint("n", func(v *visit) *int16 { return &v.N }),
		OptionalText("utm_source", func(v *visit) *string { return &v.Source }),
		OptionalText("utm_campaign", func(v *visit) *string { return &v.Name }),
	}

	// VisitAttribution are the columns that only a conversion webhook reports.
	VisitAttribution = Columns[visit]{
		Text("channel", func(v *visit) *string { return &v.Channel }),
		OptionalText("utm_medium", func(v *visit) *string { return &v.Medium }),
		OptionalText("gclid", func(v *visit) *string { return &v.Gclid }),
		OptionalText("gbraid", func(v *visit) *string { return &v.Gbraid }),
		OptionalText("wbraid", func(v *visit) *string { return &v.Wbraid }),
		OptionalText("fbclid", func(v *visit) *string { return &v.Fbclid }),
		OptionalText("msclkid", func(v *visit) *string { return &v.Msclkid }),
	}

	// visitWritten are the columns that no batch reads.
	visitWritten = Columns[visit]{
		ID("visitor", func(v *visit) []byte { return v.Visitor[:] }),
		OptionalText("referrer", func(v *visit) *string { return &v.Referrer }),
		OptionalText("utm_content", func(v *visit) *string { return &v.Content }),
		OptionalText("utm_term", func(v *visit) *string { return &v.Term }),
	}

	// VisitState are the columns that a batch reads of each visit it may continue. Site and visitor
	// are known from the lookup's key.
	VisitState = VisitKey[1:].With(VisitChanging...).With(visitRule...)

	// Visits is the table of visits.
	Visits = Table[visit]{"visits", slices.Concat(VisitKey, VisitChanging, visitRule, VisitAttribution, visitWritten)}
)

// Pageviews is the table of page views.
var Pageviews = Table[pageview]{"pageviews", Columns[pageview]{
	Bigint("site_id", func(p *pageview) *int64 { return &p.SiteID }),
	Bigint("at", func(p *pageview) *model.Instant { return &p.At }),
	Bigint("id", func(p *pageview) *int64 { return &p.ID }),
	Bigint("visit_id", func(p *pageview) *int64 { return &p.VisitID }),
	Integer("engaged_ms", func(p *pageview) *int32 { return &p.EngagedMS }),
	Smallint("scroll", func(p *pageview) *int16 { return &p.Scroll }),
	Smallint("width_range", func(p *pageview) *int16 { return &p.WidthRange }),
	Bool("manual", func(p *pageview) *bool { return &p.Manual }),
	Text("path", func(p *pageview) *string { return &p.Path }),
	OptionalText("language", func(p *pageview) *string { return &p.Language }),
}}

// Events is the table of events.
var Events = Table[event]{"events", Columns[event]{
	Bigint("site_id", func(e *event) *int64 { return &e.SiteID }),
	Bigint("at", func(e *event) *model.Instant { return &e.At }),
	Bigint("id", func(e *event) *int64 { return &e.ID }),
	Bigint("visit_id", func(e *event) *int64 { return &e.VisitID }),
	Text("name", func(e *event) *string { return &e.Name }),
	Text("path", func(e *event) *string { return &e.Path }),
	OptionalBigint("value", eventValue),
	OptionalText("currency", func(e *event) *string { return &e.Currency }),
	OptionalText("transaction_id", func(e *event) *string { return &e.TransactionID }),
	OptionalText("properties", func(e *event) *string { return &e.Properties }),
}}

// eventValue is nil for an event without a value: a value has a currency.
func eventValue(e *event) *int64 {
	if e.Currency == "" {
		return nil
	}
	value := int64(e.Value)
	return &value
}

// Transactions is the table of the purchases and refunds that were recorded.
var Transactions = Table[transaction]{"transactions", Columns[transaction]{
	Bigint("site_id", func(t *transaction) *int64 { return &t.SiteID }),
	Text("transaction_id", func(t *transaction) *string { return &t.TransactionID }),
	Text("event", func(t *transaction) *string { return &t.Event }),
	Bigint("at", func(t *transaction) *model.Instant { return &t.At }),
}}

// TransactionEvent is the column that a batch reads of a recorded transaction.
var TransactionEvent = Transactions.Columns[2:3]

// Deliveries is the table of webhook deliveries, with the columns that a new one sets.
var Deliveries = Table[delivery]{"deliveries", Columns[delivery]{
	Bigint("site_id", func(d *delivery) *int64 { return &d.SiteID }),
	Bigint("id", func(d *delivery) *int64 { return &d.ID }),
	Text("kind", func(d *delivery) *string { return &d.Kind }),
	Text("event", func(d *delivery) *string { return &d.Event }),
	Text("state", func(d *delivery) *string { return &d.State }),
	Integer("attempts", func(d *delivery) *int32 { return &d.ScheduledAttempts }),
	Bigint("created_at", func(d *delivery) *model.Instant { return &d.CreatedAt }),
	Bigint("next_attempt_at", func(d *delivery) *model.Instant { return &d.NextAttemptAt }),
	Text("body", func(d *delivery) *string { return &d.Body }),
}}

// The columns by which rows are looked up.
var (
	UsageKey = Columns[model.UsageKey]{
		Bigint("site_id", func(k *model.UsageKey) *int64 { return &k.SiteID }),
		Integer("month", func(k *model.UsageKey) *model.Month { return &k.Month }),
	}

	VisitorKey = Columns[model.VisitorKey]{
		Bigint("site_id", func(k *model.VisitorKey) *int64 { return &k.SiteID }),
		ID("visitor", func(k *model.VisitorKey) []byte { return k.Visitor[:] }),
	}

	ViewKey = Columns[model.ViewKey]{
		Bigint("site_id", func(k *model.ViewKey) *int64 { return &k.Visitor.SiteID }),
		ID("visitor", func(k *model.ViewKey) []byte { return k.Visitor.Visitor[:] }),
		Bigint("pageview_id", func(k *model.ViewKey) *int64 { return &k.PageviewID }),
	}

	TransactionKey = Columns[model.TransactionKey]{
		Bigint("site_id", func(k *model.TransactionKey) *int64 { return &k.SiteID }),
		Text("transaction_id", func(k *model.TransactionKey) *string { return &k.TransactionID }),
	}

	// Engagement are the columns of an engagement report.
	Engagement = Columns[model.Engagement]{
		Bigint("site_id", func(e *model.Engagement) *int64 { return &e.SiteID }),
		Bigint("id", func(e *model.Engagement) *int64 { return &e.PageviewID }),
		Integer("ms", func(e *model.Engagement) *int32 { return &e.MS }),
		Smallint("scroll", func(e *model.Engagement) *int16 { return &e.Scroll }),
	}
)
