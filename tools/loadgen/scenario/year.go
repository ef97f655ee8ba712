package scenario

import (
	"context"
	"fmt"
	"io"
	"time"

	"github.com/tallygate/tallygate/db"
	"github.com/tallygate/tallygate/db/model"
	"github.com/tallygate/tallygate/db/reports/segment"
	"github.com/tallygate/tallygate/db/retention"
	"github.com/tallygate/tallygate/tools/loadgen/bulk"
	"github.com/tallygate/tallygate/tools/oracle"
)

// year is a site with the rows of a busy site for the days up to today. Its weekends are quieter.
type year struct {
	siteID      model.SiteID
	pageviews   float64 // of an average day
	first, last model.Day
	busy        *oracle.Busy
}

// newYear returns a site with rows page views on a number of days that end today.
func newYear(siteID int64, rows, days int, now model.Instant) *year {
	last := now.Day()
	return &year{
		siteID: model.SiteID(siteID), pageviews: float64(rows) / float64(days), first: last - model.Day(days) + 1, last: last,
		busy: oracle.NewBusy(uint64(rows)),
	}
}

// fill loads the rows day by day, with partitions for their months, and returns the number of page
// views.
func (y *year) fill(ctx context.Context, d *db.DB, progress io.Writer) (pageviews int, err error) {
	for day := y.first; day <= y.last+1; day += 28 {
		if err := retention.New(d).EnsurePartitions(ctx, day.Start()); err != nil {
			return 0, err
		}
	}

	began := time.Now()
	err = bulk.Fill(ctx, d, func() error {
		for day := y.first; day <= y.last; day++ {
			rows := y.rows(day)
			if err := bulk.Load(ctx, d, rows); err != nil {
				return err
			}

			pageviews += len(rows.Pageviews)
			if n := day - y.first + 1; n%30 == 0 {
				fmt.Fprintf(progress, "filled %d of %d days in %.0f s\n", n, y.last-y.first+1, time.Since(began).Seconds())
			}
		}
		return nil
	})
	return pageviews, err
}

// rows returns the rows of a day, in the order of their keys.
func (y *year) rows(day model.Day) (rows bulk.Rows) {
	// The week averages 1.
	share := 1.12
	if weekday := day.Start().Time().Weekday(); weekday == time.Saturday || weekday == time.Sunday {
		share = 0.7
	}
	made := y.busy.Day(day, int(y.pageviews*share))

	visits := make(map[segment.VisitKey]*model.Visit)
	rows.Visits = make([]model.Visit, len(made.Visits))
	for i, v := range made.Visits {
		rows.Visits[i] = model.Visit{SiteID: y.siteID, Visitor: v.Visitor, N: v.N, StartedAt: v.StartedAt,
			Channel: model.Channel(v.Channel), Referrer: v.Referrer, Campaign: v.Campaign, Client: v.Client}
		if v.UserID != "" {
			rows.Visits[i].UserID = []byte(v.UserID)
		}
		visits[v.VisitKey] = &rows.Visits[i]
	}
	for _, v := range made.Views {
		visit := visits[v.VisitKey]
		visit.Pageviews++
		visit.LastPageviewAt = v.At
		rows.Pageviews = append(rows.Pageviews, model.Pageview{SiteID: y.siteID, At: v.At, ID: v.ID, Visitor: v.Visitor, N: v.N,
			Path: v.Path, Language: v.Language, WidthRange: v.Width})
		if v.EngagedMS > 0 {
			key := model.EngagementKey{SiteID: y.siteID, Day: day, PageviewID: v.ID}
			rows.Engagement = append(rows.Engagement, model.Engagement{EngagementKey: key, MS: v.EngagedMS, Scroll: v.Scroll})
		}
	}
	for _, e := range made.Events {
		event := model.Event{SiteID: y.siteID, At: e.At, ID: e.ID, Visitor: e.Visitor, N: e.N, Name: e.Name, Path: e.Path,
			Value: e.Value, Currency: e.Currency, Properties: e.Properties}
		if e.Currency != "" {
			event.TransactionID = fmt.Sprintf("order-%x", uint64(e.ID))
		}
		rows.Events = append(rows.Events, event)
	}

	rows.Sort()
	return rows
}
