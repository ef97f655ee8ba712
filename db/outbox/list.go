package outbox

import (
	"context"
	"fmt"
	"maps"
	"math"
	"slices"
	"strings"
	"time"

	"github.com/uptrace/bun"

	"github.com/tallygate/tallygate/db"
	"github.com/tallygate/tallygate/db/model"
)

// Deliveries as owners read them: lists, counts, bodies and attempts.

// shownColumns are all columns except the body, which can be long.
const shownColumns = "site_id, id, kind, event, state, attempts, created_at, next_attempt_at, tries, claimed_until, " +
	"fallback, url"

// DeliveryFilter selects deliveries; zero fields select all. It is comparable.
type DeliveryFilter struct {
	Kind, State, Event string
	Since, Until       model.Instant // of created_at: from Since on, before Until
}

// DeliveryPage is a page of the deliveries that a filter selects. It is comparable.
type DeliveryPage struct {
	DeliveryFilter
	db.Page
}

// MaxDeliveryCount is the largest number that DeliveryCounts returns.
const MaxDeliveryCount = 10_000

// The values of the columns kind and state, for conditions that an index must find by all of its
// columns.
var (
	deliveryKinds  = model.DeliveryKinds()
	deliveryStates = []string{
		model.DeliveryPending, model.DeliveryWaiting, model.DeliveryDelivered, model.DeliveryFailed,
	}
)

// condition is a part of a WHERE clause with its arguments.
type condition struct {
	text string
	args []any
}

// conditions returns the filter as conditions on deliveries of one site. Each selected row meets
// exactly one. Each condition is a range of an index that ends with the id, so that a page costs
// the same however many other rows there are.
func (f DeliveryFilter) conditions() []condition {
	kinds, states := deliveryKinds, deliveryStates
	if f.Kind != "" {
		kinds = []string{f.Kind}
	}
	if f.State != "" {
		states = []string{f.State}
	}

	all := []condition{{}}
	switch {
	case f.Event != "":
		// The index of events. An event's name nearly always implies its kind.
		all = nil
		for _, state := range states {
			c := condition{" AND event = ? AND state = ?", []any{f.Event, state}}
			if f.Kind != "" {
				c.text, c.args = c.text+" AND kind = ?", append(c.args, f.Kind)
			}
			all = append(all, c)
		}
	case f.Kind != "" || f.State != "":
		all = nil
		for _, kind := range kinds {
			for _, state := range states {
				all = append(all, condition{" AND kind = ? AND state = ?", []any{kind, state}})
			}
		}
	}

	since, until := f.period()
	for i := range all {
		all[i].text += since.text + until.text
		all[i].args = append(append(all[i].args, since.args...), until.args...)
	}

	return all
}

// The ids of an owner's deliveries: firstIDs bounds their times, and idSlack exceeds how far an id
// is ahead of its row's time, see planDailyExport.
var (
	firstIDs = model.At(time.Date(2020, 1, 1, 0, 0, 0, 0, time.UTC))
	lastIDs  = model.At(time.Date(2090, 1, 1, 0, 0, 0, 0, time.UTC))
)

const idSlack = time.Second

// firstIDSince returns an id that no delivery since a time is below.
func firstIDSince(since model.Instant) int64 {
	return model.FirstTimeID(min(max(since, firstIDs), lastIDs))
}

// period returns the conditions of Since and Until: on the id, by which the indexes are ordered,
// and on the exact time.
func (f DeliveryFilter) period() (since, until condition) {
	if f.Since != 0 {
		since = condition{" AND id >= ? AND created_at >= ?", []any{firstIDSince(f.Since), f.Since}}
	}
	if f.Until != 0 {
		bound := min(max(f.Until, firstIDs), lastIDs).Add(idSlack)
		until = condition{" AND id < ? AND created_at < ?", []any{model.FirstTimeID(bound), f.Until}}
	}
	return since, until
}

// DeliveriesOfSites returns a page of deliveries of each site, in the list's order, without their
// bodies. It runs one statement. It does not check permissions: the caller must have loaded the
// sites.
func (s *Store) DeliveriesOfSites(
	ctx context.Context, siteIDs []model.SiteID, page DeliveryPage,
) (map[model.SiteID][]*model.Delivery, error) {
	if len(siteIDs) == 0 {
		return nil, nil
	}

	bySite := make(map[model.SiteID][]*model.Delivery, len(siteIDs))
	err := s.db.PerCell(ctx, siteIDs, func(in *db.Cell, siteIDs []model.SiteID) error {
		pages, err := deliveryList.Pages(ctx, in.Read, siteIDs, page.Page, page.conditions()...)
		maps.Copy(bySite, pages)
		return err
	})
	if err != nil {
		return nil, fmt.Errorf("list deliveries of %d sites: %w", len(siteIDs), err)
	}
	return bySite, nil
}

var deliveryList = List[model.Delivery, model.SiteID]{
	Columns: shownColumns, From: "deliveries", Owner: "site_id", ID: "id",
	OwnerOf: func(d *model.Delivery) model.SiteID { return d.SiteID },
}

// List describes a list of the rows of each owner, by the parts of its statement.
type List[Row any, OwnerID ~int64] struct {
	Columns, From, Owner, ID string

	OwnerOf func(*Row) OwnerID
}

// Pages returns a page of each owner's rows that meet one of the conditions, in the list's order.
// It runs one statement. It does not check permissions.
func (l List[Row, OwnerID]) Pages(
	ctx context.Context, read *bun.DB, owners []OwnerID, page db.Page, conditions ...condition,
) (map[OwnerID][]*Row, error) {
	if len(owners) == 0 {
		return nil, nil
	}
	if len(conditions) == 0 {
		conditions = []condition{{}}
	}
	above, below := page.Bounds()
	if below == 0 {
		below = math.MaxInt64
	}

	var parts []string
	var args []any
	for _, owner := range owners {
		for _, c := range conditions {
			parts = append(parts, fmt.Sprintf(
				"SELECT * FROM (SELECT %s FROM %s WHERE %s = ?%s AND %s > ? AND %s < ? ORDER BY %s LIMIT ?) AS part_%d",
				l.Columns, l.From, l.Owner, c.text, l.ID, l.ID, page.Order(l.ID), len(parts),
			))
			args = append(append(append(args, owner), c.args...), above, below, page.Limit)
		}
	}

	var found []*Row
	err := read.NewRaw(strings.Join(parts, " UNION ALL ")+" ORDER BY "+page.Order("id"), args...).Scan(ctx, &found)
	if err != nil {
		return nil, err
	}

	// Each condition may return a whole page of an owner.
	lists := make(map[OwnerID][]*Row, len(owners))
	for _, row := range found {
		if owner := l.OwnerOf(row); len(lists[owner]) < page.Limit {
			lists[owner] = append(lists[owner], row)
		}
	}
	for _, list := range lists {
		db.InOrder(list, page.Backward)
	}
	return lists, nil
}

// DeliveryCounts returns how many deliveries of each site a filter selects, at most
// MaxDeliveryCount. It runs one statement. It does not check permissions: the caller must have
// loaded the sites.
func (s *Store) DeliveryCounts(
	ctx context.Context, siteIDs []model.SiteID, filter DeliveryFilter,
) (map[model.SiteID]int, error) {
	if len(siteIDs) == 0 {
		return nil, nil
	}

	var counts []string
	var args []any
	for i, c := range filter.conditions() {
		counts = append(counts, fmt.Sprintf(
			"(SELECT count(*) FROM (SELECT 1 FROM deliveries d WHERE d.site_id = s.id%s LIMIT %d) AS part_%d)",
			c.text, MaxDeliveryCount, i,
		))
		args = append(args, c.args...)
	}

	type count struct {
		ID model.SiteID
		N  int
	}
	query := "SELECT s.id, " + strings.Join(counts, " + ") + " AS n FROM sites s WHERE s.id IN ?"
	rows, err := db.RowsPerCell(ctx, s.db, siteIDs, func(in *db.Cell, siteIDs []model.SiteID, rows *[]count) error {
		return in.Read.NewRaw(query, append(slices.Clone(args), bun.Tuple(siteIDs))...).Scan(ctx, rows)
	})
	if err != nil {
		return nil, fmt.Errorf("count deliveries of %d sites: %w", len(siteIDs), err)
	}

	bySite := make(map[model.SiteID]int, len(rows))
	for _, row := range rows {
		bySite[row.ID] = min(row.N, MaxDeliveryCount)
	}

	return bySite, nil
}

// DeliveryByID returns a delivery of a site of the account, without its body, or model.ErrNotFound.
func (s *Store) DeliveryByID(ctx context.Context, accountID model.AccountID, siteID model.SiteID, id int64) (*model.Delivery, error) {
	in, err := s.db.OfSite(ctx, siteID)
	if err != nil {
		return nil, err
	}

	var delivery model.Delivery
	err = in.Read.NewSelect().Model(&delivery).ExcludeColumn("body").Where("site_id = ?", siteID).
		Where("id = ?", id).
		Where("EXISTS (SELECT 1 FROM sites WHERE id = ? AND account_id = ? AND deleted_at = 0)", siteID, accountID).
		Scan(ctx)
	if err != nil {
		return nil, db.OrNotFound(err)
	}
	return &delivery, nil
}

// DeliveryKey identifies a delivery.
type DeliveryKey struct {
	SiteID model.SiteID
	ID     int64
}

// rowsOf splits the keys of deliveries into the columns of a condition.
func rowsOf(deliveries []DeliveryKey) (sites []model.SiteID, ids []int64, wanted map[DeliveryKey]bool) {
	wanted = make(map[DeliveryKey]bool, len(deliveries))
	for _, key := range deliveries {
		wanted[key], sites, ids = true, append(sites, key.SiteID), append(ids, key.ID)
	}

	slices.Sort(sites)
	return slices.Compact(sites), ids, wanted
}

// LastAttempts returns the last model.ShownAttempts attempts of each delivery, in order. It runs
// one statement. It does not check permissions: the caller must have loaded the deliveries.
func (s *Store) LastAttempts(
	ctx context.Context, deliveries []DeliveryKey,
) (map[DeliveryKey][]*model.DeliveryAttempt, error) {
	if len(deliveries) == 0 {
		return nil, nil
	}

	sites, ids, wanted := rowsOf(deliveries)
	rows, err := db.RowsPerCell(ctx, s.db, sites, func(in *db.Cell, sites []model.SiteID, rows *[]*model.DeliveryAttempt) error {
		var err error
		*rows, err = lastAttempts(ctx, in.Read, deliveryRows, sites, ids)
		return err
	})
	if err != nil {
		return nil, fmt.Errorf("list attempts of %d deliveries: %w", len(deliveries), err)
	}

	attempts := make(map[DeliveryKey][]*model.DeliveryAttempt, len(deliveries))
	for _, row := range rows {
		// A delivery of another site can have the same id.
		if key := (DeliveryKey{row.SiteID, row.DeliveryID}); wanted[key] {
			attempts[key] = append(attempts[key], row)
		}
	}

	return attempts, nil
}

// MessageAttempts is LastAttempts for messages to alert channels.
func (s *Store) MessageAttempts(ctx context.Context, ids []int64) (map[int64][]*model.DeliveryAttempt, error) {
	if len(ids) == 0 {
		return nil, nil
	}
	rows, err := lastAttempts[int64](ctx, s.db.Read, messageRows, nil, ids)
	if err != nil {
		return nil, fmt.Errorf("list attempts of %d messages: %w", len(ids), err)
	}

	of := make(map[int64][]*model.DeliveryAttempt, len(ids))
	for _, row := range rows {
		of[row.DeliveryID] = append(of[row.DeliveryID], row)
	}
	return of, nil
}

// DeliveryBodies returns the stored body of each delivery. It runs one statement. It does not check
// permissions: the caller must have loaded the deliveries.
func (s *Store) DeliveryBodies(ctx context.Context, deliveries []DeliveryKey) (map[DeliveryKey]string, error) {
	if len(deliveries) == 0 {
		return nil, nil
	}

	sites, ids, wanted := rowsOf(deliveries)
	rows, err := db.RowsPerCell(ctx, s.db, sites, func(in *db.Cell, sites []model.SiteID, rows *[]model.Delivery) error {
		return in.Read.NewSelect().Model(rows).Column("site_id", "id", "body").
			Where("site_id IN ?", bun.Tuple(sites)).Where("id IN ?", bun.Tuple(ids)).Scan(ctx)
	})
	if err != nil {
		return nil, fmt.Errorf("read bodies of %d deliveries: %w", len(deliveries), err)
	}

	bodies := make(map[DeliveryKey]string, len(deliveries))

	// The statement selects each site with each id, so drop pairs that are not wanted.
	for _, row := range rows {
		if key := (DeliveryKey{row.SiteID, row.ID}); wanted[key] {
			bodies[key] = row.Body
		}
	}

	return bodies, nil
}
