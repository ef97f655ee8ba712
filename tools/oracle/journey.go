package oracle

import (
	"cmp"
	"maps"
	"slices"

	"github.com/tallygate/tallygate/db/reports/scan"
	"github.com/tallygate/tallygate/db/reports/segment"
)

// begunVisits calls each with the visits that the filters keep, have a page view and began in the
// period.
func (n *naive) begunVisits(days []segment.Rows, each func(v *naiveVisit)) {
	for _, rows := range days {
		for _, v := range visitsOf(rows) {
			if n.kept(&v) && len(v.views) > 0 && n.in(v.StartedAt) {
				each(&v)
			}
		}
	}
}

// rowsOf returns the page views and events of a visit in order.
func rowsOf(v *naiveVisit) []funnelRow {
	var rows []funnelRow
	for _, view := range v.views {
		rows = append(rows, funnelRow{at: view.At, path: view.Path, id: view.ID})
	}
	for _, e := range v.events {
		rows = append(rows, funnelRow{at: e.At, event: e.Name, id: e.ID})
	}
	slices.SortFunc(rows, compareRows)
	return rows
}

// makes reports whether a row makes a step.
func (r *funnelRow) makes(step scan.Step) bool {
	if step.Page == "" {
		return r.event == step.Event
	}
	return r.event == "" && MatchPattern(step.Page, r.path)
}

// wayOf returns the pages that a visit viewed after the start of a journey, or before it. ok is
// false for a visit without the start.
func wayOf(j *scan.Journey, v *naiveVisit) (pages []string, ok bool) {
	rows := rowsOf(v)
	start := slices.IndexFunc(rows, func(r funnelRow) bool { return r.makes(j.From) })
	if start < 0 {
		return nil, false
	}

	way := rows[start:]
	if j.Before {
		way = slices.Clone(rows[:start+1])
		slices.Reverse(way)
	}
	for _, r := range way {
		if r.event == "" {
			pages = append(pages, r.path)
		}
	}
	pages = slices.Compact(pages)
	if j.From.Page != "" {
		pages = pages[1:]
	}
	return pages, true
}

// naiveNode is a node of a journey.
type naiveNode struct {
	visits int64
	people map[string]bool
	next   map[string]*naiveNode // by page; the empty text is the end
}

func newNaiveNode() *naiveNode {
	return &naiveNode{people: map[string]bool{}, next: map[string]*naiveNode{}}
}

// journey counts a journey.
func (n *naive) journey(j *scan.Journey, days []segment.Rows) *scan.JourneyNode {
	root := newNaiveNode()
	n.begunVisits(days, func(v *naiveVisit) {
		pages, ok := wayOf(j, v)
		if !ok {
			return
		}

		pages = append(pages, "")
		pages = pages[:min(len(pages), j.Steps)]
		node := root
		for i := range len(pages) + 1 {
			node.visits++
			node.people[n.who(v, v.StartedAt)] = true
			if i == len(pages) {
				break
			}
			if node.next[pages[i]] == nil {
				node.next[pages[i]] = newNaiveNode()
			}
			node = node.next[pages[i]]
		}
	})
	return root.node("")
}

// node returns a node with the most frequent ones below it.
func (n *naiveNode) node(page string) *scan.JourneyNode {
	shown := &scan.JourneyNode{Page: page, Visits: n.visits, Visitors: int64(len(n.people))}
	pages := slices.SortedFunc(maps.Keys(n.next), func(a, b string) int {
		return cmp.Or(cmp.Compare(n.next[b].visits, n.next[a].visits), cmp.Compare(a, b))
	})
	pages = slices.DeleteFunc(pages, func(page string) bool { return page == "" })
	for _, page := range pages[:min(len(pages), scan.MaxJourneyPages)] {
		shown.Next = append(shown.Next, *n.next[page].node(page))
	}
	if end := n.next[""]; end != nil {
		last := *end.node("")
		last.End = true
		shown.Next = append(shown.Next, last)
	}
	return shown
}

// cohorts counts user ids by the week of their first visit.
func (n *naive) cohorts(days []segment.Rows) []scan.Cohort {
	weeks := map[string]map[scan.Date]bool{} // Mondays, by user id
	n.begunVisits(days, func(v *naiveVisit) {
		if v.person == "" {
			return
		}
		day := scan.DateOf(v.StartedAt.Time().In(n.q.Zone))
		for day.Weekday() != 1 {
			day = day.AddDays(-1)
		}
		if weeks[v.person] == nil {
			weeks[v.person] = map[scan.Date]bool{}
		}
		weeks[v.person][day] = true
	})

	list := make([]scan.Cohort, n.q.Cohorts.Weeks)
	for _, seen := range weeks {
		first := slices.MinFunc(slices.Collect(maps.Keys(seen)), scan.Date.Compare)
		for i := range list {
			if n.q.Cohorts.First.AddDays(7*i) != first {
				continue
			}
			list[i].Users++
			for week := range list[i].Returned {
				if seen[first.AddDays(7*(week+1))] {
					list[i].Returned[week]++
				}
			}
		}
	}
	return list
}
