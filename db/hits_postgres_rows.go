package db

import (
	"maps"
	"slices"

	"github.com/jackc/pgx/v5"

	"github.com/tallygate/tallygate/db/model"
)

// How the rows of postgresHits travel: what comes is scanned into the state, what goes is turned
// into one array per column.

func scanUsage(rows pgx.Rows, state *HitState) error {
	for rows.Next() {
		var key model.UsageKey
		var usage Usage
		if err := rows.Scan(&key.SiteID, &key.Month, &usage.Used, &usage.Quota); err != nil {
			return err
		}

		state.Usage[key] = usage
	}

	return rows.Err()
}

func scanVisits(rows pgx.Rows, state *HitState) error {
	for rows.Next() {
		var v scannedVisit
		if err := rows.Scan(v.columns()...); err != nil {
			return err
		}

		state.addVisit(v.visit())
	}

	return rows.Err()
}

func scanAttribution(rows pgx.Rows, state *HitState) error {
	for rows.Next() {
		var v scannedVisit
		if err := rows.Scan(append(v.columns(), v.attribution()...)...); err != nil {
			return err
		}

		state.addVisit(v.visit())
	}

	return rows.Err()
}

func scanViewed(rows pgx.Rows, asked []model.ViewKey, state *HitState) error {
	for rows.Next() {
		// counts from 1
		var number int64
		var v scannedVisit
		columns := append([]any{&number}, v.columns()...)
		if err := rows.Scan(append(columns, v.attribution()...)...); err != nil {
			return err
		}

		state.Viewed[asked[number-1]] = v.visit()
	}

	return rows.Err()
}

// scannedVisit is a visit as pgx reads it: with a pointer for each column that may be NULL.
type scannedVisit struct {
	model.Visit
	visitor                                                          []byte
	source, campaign, medium, gclid, gbraid, wbraid, fbclid, msclkid *string
}

// columns are those of pgVisit.
func (v *scannedVisit) columns() []any {
	return []any{&v.SiteID, &v.visitor, &v.ID, &v.StartedAt, &v.LastPageviewAt, &v.Pageviews, &v.UserID, &v.N, &v.Recent, &v.Awaited,
		&v.source, &v.campaign}
}

// attribution are the columns of pgAttribution.
func (v *scannedVisit) attribution() []any {
	return []any{&v.Channel, &v.medium, &v.gclid, &v.gbraid, &v.wbraid, &v.fbclid, &v.msclkid}
}

func (v *scannedVisit) visit() model.Visit {
	copy(v.Visitor[:], v.visitor)
	v.Source, v.Name, v.Medium = orEmpty(v.source), orEmpty(v.campaign), orEmpty(v.medium)
	v.Gclid, v.Gbraid, v.Wbraid = orEmpty(v.gclid), orEmpty(v.gbraid), orEmpty(v.wbraid)
	v.Fbclid, v.Msclkid = orEmpty(v.fbclid), orEmpty(v.msclkid)
	return v.Visit
}

func scanTransactions(rows pgx.Rows, state *HitState) error {
	for rows.Next() {
		var key model.TransactionKey
		var event string
		if err := rows.Scan(&key.SiteID, &key.TransactionID, &event); err != nil {
			return err
		}

		state.Transactions[key] = event
	}

	return rows.Err()
}

func usageColumns(keys []model.UsageKey) (sites []int64, months []int32) {
	sites, months = make([]int64, len(keys)), make([]int32, len(keys))
	for i, k := range keys {
		sites[i], months[i] = k.SiteID, int32(k.Month)
	}
	return sites, months
}

func visitorColumns(keys []model.VisitorKey) (sites []int64, visitors [][]byte) {
	sites, visitors = make([]int64, len(keys)), make([][]byte, len(keys))
	for i := range keys {
		sites[i], visitors[i] = keys[i].SiteID, keys[i].Visitor[:]
	}
	return sites, visitors
}

func viewColumns(keys []model.ViewKey) []any {
	return []any{
		column(keys, func(k *model.ViewKey) int64 { return k.Visitor.SiteID }),
		column(keys, func(k *model.ViewKey) []byte { return k.Visitor.Visitor[:] }),
		column(keys, func(k *model.ViewKey) int64 { return k.PageviewID }),
	}
}

func transactionKeyColumns(keys []model.TransactionKey) []any {
	return []any{
		column(keys, func(k *model.TransactionKey) int64 { return k.SiteID }),
		column(keys, func(k *model.TransactionKey) string { return k.TransactionID }),
	}
}

func newVisitColumns(visits []model.Visit) []any {
	return []any{
		column(visits, func(v *model.Visit) int64 { return v.SiteID }),
		column(visits, func(v *model.Visit) int64 { return v.ID }),
		column(visits, func(v *model.Visit) []byte { return v.Visitor[:] }),
		column(visits, func(v *model.Visit) int64 { return int64(v.StartedAt) }),
		column(visits, func(v *model.Visit) int64 { return int64(v.LastPageviewAt) }),
		column(visits, func(v *model.Visit) int32 { return v.Pageviews }),
		column(visits, func(v *model.Visit) int16 { return v.N }),
		column(visits, func(v *model.Visit) []byte { return v.Recent }),
		column(visits, func(v *model.Visit) []byte { return v.Awaited }),
		column(visits, func(v *model.Visit) string { return v.Channel }),
		column(visits, func(v *model.Visit) []byte { return v.UserID }),
		column(visits, func(v *model.Visit) *string { return orNull(&v.Referrer) }),
		column(visits, func(v *model.Visit) *string { return orNull(&v.Source) }),
		column(visits, func(v *model.Visit) *string { return orNull(&v.Medium) }),
		column(visits, func(v *model.Visit) *string { return orNull(&v.Name) }),
		column(visits, func(v *model.Visit) *string { return orNull(&v.Content) }),
		column(visits, func(v *model.Visit) *string { return orNull(&v.Term) }),
		column(visits, func(v *model.Visit) *string { return orNull(&v.Gclid) }),
		column(visits, func(v *model.Visit) *string { return orNull(&v.Gbraid) }),
		column(visits, func(v *model.Visit) *string { return orNull(&v.Wbraid) }),
		column(visits, func(v *model.Visit) *string { return orNull(&v.Fbclid) }),
		column(visits, func(v *model.Visit) *string { return orNull(&v.Msclkid) }),
	}
}

func continuedColumns(visits []model.Visit) []any {
	return []any{
		column(visits, func(v *model.Visit) int64 { return v.SiteID }),
		column(visits, func(v *model.Visit) int64 { return v.ID }),
		column(visits, func(v *model.Visit) int64 { return int64(v.LastPageviewAt) }),
		column(visits, func(v *model.Visit) int32 { return v.Pageviews }),
		column(visits, func(v *model.Visit) []byte { return v.Recent }),
		column(visits, func(v *model.Visit) []byte { return v.Awaited }),
		column(visits, func(v *model.Visit) []byte { return v.UserID }),
	}
}

func pageviewColumns(pageviews []model.Pageview) []any {
	return []any{
		column(pageviews, func(p *model.Pageview) int64 { return p.SiteID }),
		column(pageviews, func(p *model.Pageview) int64 { return int64(p.At) }),
		column(pageviews, func(p *model.Pageview) int64 { return p.ID }),
		column(pageviews, func(p *model.Pageview) int64 { return p.VisitID }),
		column(pageviews, func(p *model.Pageview) int32 { return p.EngagedMS }),
		column(pageviews, func(p *model.Pageview) int16 { return p.Scroll }),
		column(pageviews, func(p *model.Pageview) int16 { return p.WidthRange }),
		column(pageviews, func(p *model.Pageview) bool { return p.Manual }),
		column(pageviews, func(p *model.Pageview) string { return p.Path }),
		column(pageviews, func(p *model.Pageview) *string { return orNull(&p.Language) }),
	}
}

func engagementColumns(engagement []model.Engagement) []any {
	return []any{
		column(engagement, func(e *model.Engagement) int64 { return e.SiteID }),
		column(engagement, func(e *model.Engagement) int64 { return e.PageviewID }),
		column(engagement, func(e *model.Engagement) int32 { return e.MS }),
		column(engagement, func(e *model.Engagement) int16 { return e.Scroll }),
		int32(model.MaxEngagement.Milliseconds()),
	}
}

func eventColumns(events []model.Event) []any {
	return []any{
		column(events, func(e *model.Event) int64 { return e.SiteID }),
		column(events, func(e *model.Event) int64 { return int64(e.At) }),
		column(events, func(e *model.Event) int64 { return e.ID }),
		column(events, func(e *model.Event) int64 { return e.VisitID }),
		column(events, func(e *model.Event) string { return e.Name }),
		column(events, func(e *model.Event) string { return e.Path }),
		column(events, valueOrNull),
		column(events, func(e *model.Event) *string { return orNull(&e.Currency) }),
		column(events, func(e *model.Event) *string { return orNull(&e.TransactionID) }),
		column(events, func(e *model.Event) *string { return orNull(&e.Properties) }),
	}
}

func transactionColumns(transactions []model.Transaction) []any {
	return []any{
		column(transactions, func(t *model.Transaction) int64 { return t.SiteID }),
		column(transactions, func(t *model.Transaction) string { return t.TransactionID }),
		column(transactions, func(t *model.Transaction) string { return t.Event }),
		column(transactions, func(t *model.Transaction) int64 { return int64(t.At) }),
	}
}

func deliveryColumns(deliveries []model.Delivery) []any {
	return []any{
		column(deliveries, func(d *model.Delivery) int64 { return d.SiteID }),
		column(deliveries, func(d *model.Delivery) int64 { return d.ID }),
		column(deliveries, func(d *model.Delivery) string { return d.Kind }),
		column(deliveries, func(d *model.Delivery) string { return d.Event }),
		column(deliveries, func(d *model.Delivery) string { return d.State }),
		column(deliveries, func(d *model.Delivery) int32 { return d.Attempts }),
		column(deliveries, func(d *model.Delivery) int64 { return int64(d.CreatedAt) }),
		column(deliveries, func(d *model.Delivery) int64 { return int64(d.NextAttemptAt) }),
		column(deliveries, func(d *model.Delivery) string { return d.Body }),
	}
}

func usedColumns(used map[model.UsageKey]int64) []any {
	keys := slices.Collect(maps.Keys(used))
	sites, months := usageColumns(keys)
	return []any{sites, months, column(keys, func(k *model.UsageKey) int64 { return used[*k] })}
}

// column collects one field of each row, as the array that PostgreSQL's unnest takes.
func column[Row, Value any](rows []Row, field func(*Row) Value) []Value {
	values := make([]Value, len(rows))
	for i := range rows {
		values[i] = field(&rows[i])
	}
	return values
}

// orNull stores an empty text as NULL.
func orNull(s *string) *string {
	if *s == "" {
		return nil
	}
	return s
}

// valueOrNull stores no value for an event that has none.
func valueOrNull(e *model.Event) *int64 {
	if e.Currency == "" {
		return nil
	}
	value := int64(e.Value)
	return &value
}

func orEmpty(s *string) string {
	if s == nil {
		return ""
	}
	return *s
}
