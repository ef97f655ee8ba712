package importer

import (
	"cmp"
	"context"
	"fmt"
	"iter"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/tallygate/tallygate/dataplane/analytics"
	"github.com/tallygate/tallygate/db/model"
	"github.com/tallygate/tallygate/db/reports"
	"github.com/tallygate/tallygate/db/reports/scan"
)

// goatSums reads the sums that GoatCounter keeps without single page views: how often a session
// viewed a path for the first time, by hour, path and referrer.
type goatSums struct {
	*sums
	api  *goatAPI
	zone *time.Location
	rows int64

	wanted map[model.Day]bool // days that are imported
	events dayPaths           // of each of these days

	// utcEvents are of whole UTC days with the dates of wanted days.
	utcEvents dayPaths
}

// dayPaths are the ids of paths by day.
type dayPaths map[model.Day]map[int64]bool

// goatClients are the lists of browsers that GoatCounter keeps by UTC day.
var goatClients = []struct {
	list string
	by   model.ReportDimension
}{
	{"browsers", model.DimensionBrowser}, {"systems", model.DimensionSystem}, {"locations", model.DimensionCountry},
}

// goatWindow is how many days of a list of paths are read with one call.
const goatWindow = 180

// FetchGoatCounter reads the sums of the GoatCounter site at an address from its API, with a token.
func FetchGoatCounter(ctx context.Context, address, token string, zone *time.Location, o Options) (*Result, error) {
	api, err := newGoatAPI(address, token, o.Client)
	if err != nil {
		return nil, err
	}

	r := &Result{Import: reports.Import{Source: model.ImportGoatCounterSums}}
	days := newDayFilter(ctx, o, r)
	api.count = days.count
	g := &goatSums{
		sums: newSums(days, "stats/hits"), api: api, zone: zone, wanted: make(map[model.Day]bool),
		events: make(dayPaths), utcEvents: make(dayPaths),
	}
	if err := g.read(ctx); err != nil {
		return nil, err
	}
	if err := g.finish(r); err != nil {
		return nil, err
	}

	r.Files = []File{{Name: address, Rows: g.rows}}
	r.Notes = append(r.Notes, model.ImportNote{Code: model.NoteGoatCounts})
	return checked(r, days)
}

// read reads all days that are imported.
func (g *goatSums) read(ctx context.Context) error {
	if err := g.api.checkZone(ctx); err != nil {
		return err
	}
	if err := g.readDays(ctx); err != nil {
		return err
	}
	if len(g.wanted) == 0 {
		return nil
	}

	ids, err := g.api.paths(ctx)
	if err != nil {
		return err
	}
	days, lists, done := g.sortedDays(), (len(ids)+goatList-1)/goatList, 0
	step := func(err error) error {
		if done++; err == nil && g.days.Progress != nil {
			g.days.Progress(float64(done) / float64(len(days)+lists))
		}
		return err
	}
	for list := range slices.Chunk(ids, goatList) {
		if err := step(g.readPaths(ctx, list)); err != nil {
			return err
		}
	}
	for _, day := range days {
		if err := g.readRefs(ctx, day); err != nil {
			return err
		}
		if err := step(g.readClients(ctx, day)); err != nil {
			return err
		}
	}
	return nil
}

// dayOf returns the day of the site's time zone in which an hour begins.
func (g *goatSums) dayOf(hour time.Time) model.Day { return scan.DateOf(hour.In(g.zone)).Number() }

// start returns the time at which a day begins.
func (g *goatSums) start(day model.Day) time.Time { return scan.DateOfNumber(day).Start(g.zone) }

func (g *goatSums) sortedDays() []model.Day { return slices.Sorted(maps.Keys(g.wanted)) }

// readDays finds the days that have counts and are imported.
func (g *goatSums) readDays(ctx context.Context) error {
	stats, err := g.api.totals(ctx)
	if err != nil {
		return err
	}

	seen := make(map[model.Day]bool)
	for i := range stats {
		hours, err := stats[i].hours()
		if err != nil {
			return err
		}
		for _, hour := range hours {
			if day := g.dayOf(hour.at); !seen[day] {
				seen[day] = true
				if g.days.keeps(day, false) {
					g.wanted[day] = true
				}
			}
		}
	}
	return nil
}

// readPaths adds the counts of paths.
func (g *goatSums) readPaths(ctx context.Context, ids []int64) error {
	days := g.sortedDays()
	end := g.start(days[len(days)-1] + 1)
	for from := g.start(days[0]); from.Before(end); from = from.AddDate(0, 0, goatWindow) {
		// The API adds whole UTC days to each end of the window; addHours leaves out hours of other
		// windows.
		until := from.AddDate(0, 0, goatWindow)
		if until.After(end) {
			until = end
		}
		if err := g.readWindow(ctx, ids, from, until); err != nil {
			return err
		}
	}
	return nil
}

// readWindow adds the counts of paths from a time until before another one.
func (g *goatSums) readWindow(ctx context.Context, ids []int64, from, until time.Time) error {
	left := make(map[int64]bool, len(ids))
	for _, id := range ids {
		left[id] = true
	}

	for more := true; more; {
		var paths []goatPath
		var err error
		if paths, more, err = g.api.hits(ctx, from, until.Add(-time.Second), left); err != nil {
			return err
		}
		for i := range paths {
			if err := g.addHours(&paths[i], from, until); err != nil {
				return fmt.Errorf("the path %.80q: %w", paths[i].Path, err)
			}
		}
	}
	return nil
}

// addHours adds the counts of a path from a time until before another one.
func (g *goatSums) addHours(path *goatPath, from, until time.Time) error {
	for i := range path.Stats {
		hours, err := path.Stats[i].hours()
		if err != nil {
			return err
		}
		for _, hour := range hours {
			if utc := model.At(hour.at).Day(); path.Event && g.wanted[utc] {
				g.utcEvents.add(g.days, utc, path.ID)
			}
			if hour.at.Before(from) || !hour.at.Before(until) {
				continue
			}
			if err := g.addPath(path, g.dayOf(hour.at), hour.n); err != nil {
				return err
			}
		}
	}
	return nil
}

// addPath adds n first views of a path, or first events, by sessions on a day.
func (g *goatSums) addPath(path *goatPath, day model.Day, n int64) error {
	if !g.wanted[day] {
		return nil
	}

	g.rows++
	text := value(bounded(path.Path))
	if !path.Event {
		sum := &reports.ImportFigure{Day: day, Visitors: n, Pageviews: n}
		if err := g.add(model.DimensionPage, pathOf(cmp.Or(text, "/")), sum); err != nil {
			return err
		}
		return g.add("", "", &reports.ImportFigure{Day: day, Pageviews: n})
	}

	g.events.add(g.days, day, path.ID)
	if text == "" {
		return g.days.skip("path")
	}
	if err := g.add(model.DimensionEvent, g.days.eventName(text), &reports.ImportFigure{Day: day, Visitors: n, Events: n}); err != nil {
		return err
	}
	return g.add("", "", &reports.ImportFigure{Day: day}) // the events of the totals are added in finish
}

// readRefs adds the counts of the referrers of page views on a day.
func (g *goatSums) readRefs(ctx context.Context, day model.Day) error {
	counts := make(map[goatRef]int64)
	from, until := g.start(day), g.start(day+1)
	if err := g.api.refs(ctx, from, until, nil, 1, counts); err != nil {
		return err
	}

	// The API adds up page views and events.
	for ids := range g.events.lists(day) {
		if err := g.api.refs(ctx, from, until, ids, -1, counts); err != nil {
			return err
		}
	}

	for ref, n := range counts {
		if n < 0 {
			return unexpected("on %v more events than hits have the referrer %.40q", day, ref.name)
		}
		if n == 0 {
			continue
		}
		if err := g.addRef(ref, day, n); err != nil {
			return err
		}
	}
	return nil
}

// addRef adds n first views with a referrer on a day.
func (g *goatSums) addRef(ref goatRef, day model.Day, n int64) error {
	name := value(bounded(ref.name))
	from, err := goatOrigin(name, ref.scheme, g.days.Domains)
	if err != nil {
		return err
	}

	// A page of the site itself is the referrer of all but the first page of a visit.
	if from.referrer == "" && name != "" && ref.scheme != "c" {
		if host, _ := analytics.ReferringPage(address(name), nil); host != "" {
			return nil
		}
	}

	g.rows++
	sum := &reports.ImportFigure{Day: day, Visitors: n}
	host, _, _ := strings.Cut(from.referrer, "/")
	return g.addOrigin(cmp.Or(from.campaign.Source, host), &from, sum, model.DimensionUTMSource)
}

// add adds a path to a day.
func (p dayPaths) add(days *dayFilter, day model.Day, id int64) {
	if p[day] == nil {
		p[day] = make(map[int64]bool)
	}
	if !p[day][id] {
		p[day][id] = true
		days.spend(eventBytes)
	}
}

// lists returns the paths of a day in lists of the length that a call permits.
func (p dayPaths) lists(day model.Day) iter.Seq[map[int64]bool] {
	return func(yield func(map[int64]bool) bool) {
		for list := range slices.Chunk(slices.Sorted(maps.Keys(p[day])), goatList) {
			ids := make(map[int64]bool, len(list))
			for _, id := range list {
				ids[id] = true
			}
			if !yield(ids) {
				return
			}
		}
	}
}

// readClients adds the counts of the browsers, systems and countries of page views on the UTC day
// of the same date.
func (g *goatSums) readClients(ctx context.Context, day model.Day) error {
	// East of Greenwich a UTC day ends later than the day of its date, maybe within the site's own
	// first day.
	if g.zone != time.UTC && (day + 1).Start().Time().After(g.start(g.days.BeforeLocal)) {
		return nil
	}

	for _, of := range goatClients {
		counts := make(map[string]int64)
		if err := g.api.clients(ctx, of.list, day, nil, 1, counts); err != nil {
			return err
		}
		for ids := range g.utcEvents.lists(day) {
			if err := g.api.clients(ctx, of.list, day, ids, -1, counts); err != nil {
				return err
			}
		}

		for name, n := range counts {
			if n <= 0 {
				continue
			}
			g.rows++
			if err := g.add(of.by, clientValue(of.by, name), &reports.ImportFigure{Day: day, Visitors: n}); err != nil {
				return err
			}
		}
	}
	return nil
}
