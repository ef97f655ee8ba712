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
		Narrow("site_id", func(v *visit) *model.SiteID { return &v.SiteID }),
		Derived("day", func(v *visit) int32 { return int32(v.Day()) }),
		Word("visitor", func(v *visit) *[8]byte { return (*[8]byte)(&v.Visitor) }),
		visitNumber,
	}

	visitNumber = Smallint("n", func(v *visit) *int16 { return &v.N })

	// VisitChanging are the columns that later hits of a visit change. The recent views are stored
	// relative to last_pageview_at, so that column is read first.
	VisitChanging = Columns[visit]{
		Bigint("last_pageview_at", func(v *visit) *model.Instant { return &v.LastPageviewAt }),
		Integer("pageviews", func(v *visit) *int32 { return &v.Pageviews }),
		BytesOf("recent", func(v *visit) []byte { return model.PackRecent(v.Recent, v.LastPageviewAt) },
			func(v *visit, packed []byte) { v.Recent = model.UnpackRecent(packed, v.LastPageviewAt) }),
		Bytes("awaited", func(v *visit) *[]byte { return &v.Awaited }),
		Bytes("viewed", func(v *visit) *[]byte { return &v.Viewed }),
		Bytes("user_id", func(v *visit) *[]byte { return &v.UserID }),
		TextOf("client", func(v *visit) string { return v.Client.Pack() },
			func(v *visit, packed string) { v.Client = model.UnpackClient(packed) }),
	}

	// visitStart are the columns that a visit's first hit sets.
	visitStart = Columns[visit]{
		Bigint("started_at", func(v *visit) *model.Instant { return &v.StartedAt }),
		SmallintOf("channel", func(v *visit) int16 { return v.Channel.Number() },
			func(v *visit, number int16) { v.Channel = model.ChannelOf(number) }),
		TextOf("attribution", func(v *visit) string { return model.PackAttribution(v.Referrer, &v.Campaign) },
			func(v *visit, packed string) { v.Referrer, v.Campaign = model.UnpackAttribution(packed) }),
	}

	// VisitState are the columns that a batch reads of each visit it may continue. Site, day and
	// visitor are known from the lookup's key.
	VisitState = Columns[visit]{visitNumber}.With(VisitChanging...).With(visitStart...)

	// Visits is the table of visits.
	Visits = Table[visit]{"visits", slices.Concat(VisitKey, VisitChanging, visitStart)}
)

// Pageviews is the table of page views.
var Pageviews = Table[pageview]{"pageviews", Columns[pageview]{
	Narrow("site_id", func(p *pageview) *model.SiteID { return &p.SiteID }),
	Bigint("at", func(p *pageview) *model.Instant { return &p.At }),
	Bigint("id", func(p *pageview) *int64 { return &p.ID }),
	Word("visitor", func(p *pageview) *[8]byte { return (*[8]byte)(&p.Visitor) }),
	Smallint("n", func(p *pageview) *int16 { return &p.N }),
	Smallint("width_range", func(p *pageview) *int16 { return &p.WidthRange }),
	Bool("manual", func(p *pageview) *bool { return &p.Manual }),
	Text("path", func(p *pageview) *string { return &p.Path }),
	Text("language", func(p *pageview) *string { return &p.Language }),
}}

// EngagementKey is the primary key of engagement.
var EngagementKey = Columns[model.EngagementKey]{
	Bigint("site_id", func(k *model.EngagementKey) *model.SiteID { return &k.SiteID }),
	Integer("day", func(k *model.EngagementKey) *model.Day { return &k.Day }),
	Bigint("id", func(k *model.EngagementKey) *int64 { return &k.PageviewID }),
}

// Engagement is the table of engagement reports, summed by page view id.
var Engagement = Table[model.Engagement]{"engagement",
	Within(func(e *model.Engagement) *model.EngagementKey { return &e.EngagementKey }, EngagementKey).With(
		Integer("ms", func(e *model.Engagement) *int32 { return &e.MS }),
		Smallint("scroll", func(e *model.Engagement) *int16 { return &e.Scroll }),
		OptionalBigint("repeated_at", repeatedAt),
	)}

// repeatedAt is nil for a page view id that no page view repeats.
func repeatedAt(e *model.Engagement) *int64 {
	if e.RepeatedAt == 0 {
		return nil
	}
	return (*int64)(&e.RepeatedAt)
}

// Events is the table of events.
var Events = Table[event]{"events", Columns[event]{
	Bigint("site_id", func(e *event) *model.SiteID { return &e.SiteID }),
	Bigint("at", func(e *event) *model.Instant { return &e.At }),
	Bigint("id", func(e *event) *int64 { return &e.ID }),
	Word("visitor", func(e *event) *[8]byte { return (*[8]byte)(&e.Visitor) }),
	Smallint("n", func(e *event) *int16 { return &e.N }),
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
	Bigint("site_id", func(t *transaction) *model.SiteID { return &t.SiteID }),
	Text("transaction_id", func(t *transaction) *string { return &t.TransactionID }),
	Text("event", func(t *transaction) *string { return &t.Event }),
	Bigint("at", func(t *transaction) *model.Instant { return &t.At }),
}}

// TransactionEvent is the column that a batch reads of a recorded transaction.
var TransactionEvent = Transactions.Columns[2:3]

// Deliveries is the table of webhook deliveries, with the columns that a new delivery sets.
var Deliveries = Table[delivery]{"deliveries", Columns[delivery]{
	Bigint("site_id", func(d *delivery) *model.SiteID { return &d.SiteID }),
	Bigint("id", func(d *delivery) *int64 { return &d.ID }),
	Text("kind", func(d *delivery) *string { return &d.Kind }),
	Text("event", func(d *delivery) *string { return &d.Event }),
	Text("state", func(d *delivery) *string { return &d.State }),
	Integer("attempts", func(d *delivery) *int32 { return &d.ScheduledAttempts }),
	Bigint("created_at", func(d *delivery) *model.Instant { return &d.CreatedAt }),
	Bigint("next_attempt_at", func(d *delivery) *model.Instant { return &d.NextAttemptAt }),
	Text("body", func(d *delivery) *string { return &d.Body }),
}}

// The key columns of lookups.
var (
	UsageKey = Columns[model.UsageKey]{
		Bigint("site_id", func(k *model.UsageKey) *model.SiteID { return &k.SiteID }),
		Integer("month", func(k *model.UsageKey) *model.Month { return &k.Month }),
	}

	VisitorKey = Columns[model.VisitorKey]{
		Bigint("site_id", func(k *model.VisitorKey) *model.SiteID { return &k.SiteID }),
		Word("visitor", func(k *model.VisitorKey) *[8]byte { return (*[8]byte)(&k.Visitor) }),
	}

	TransactionKey = Columns[model.TransactionKey]{
		Bigint("site_id", func(k *model.TransactionKey) *model.SiteID { return &k.SiteID }),
		Text("transaction_id", func(k *model.TransactionKey) *string { return &k.TransactionID }),
	}
)
