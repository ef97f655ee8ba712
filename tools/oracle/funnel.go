package oracle

import (
	"cmp"
	"slices"

	"github.com/tallygate/tallygate/db/model"
	"github.com/tallygate/tallygate/db/reports/scan"
	"github.com/tallygate/tallygate/db/reports/segment"
)

// funnelRow is a page view or an event on the way through a funnel.
type funnelRow struct {
	visit int // place among the visitor's visits, by start
	at    model.Instant
	event string // empty for a page view
	path  string
	id    int64
	user  string
}

// compareRows orders the rows of a visitor as docs/owner/reports.md defines: by time, page views before
// events and then by id, but rows of the same second that belong to different visits by their
// visits.
func compareRows(a, b funnelRow) int {
	second := func(r funnelRow) int64 { return r.at.Time().Unix() }
	return cmp.Or(
		cmp.Compare(second(a), second(b)), cmp.Compare(a.visit, b.visit), cmp.Compare(a.at, b.at),
		cmp.Compare(min(len(a.event), 1), min(len(b.event), 1)), cmp.Compare(a.id, b.id),
	)
}

// funnel returns how many visitors made at least each of the steps.
func (n *naive) funnel(steps []scan.Step, days []segment.Rows) []int64 {
	reached := make([]int64, len(steps))
	add := func(made int) {
		for i := range made {
			reached[i]++
		}
	}

	users := make(map[string]int) // most steps within a day
	for _, rows := range days {
		for _, visits := range n.visitors(rows) {
			made, user := n.follow(steps, visits)
			if user == "" {
				add(made)
			}
			users[user] = max(users[user], made)
		}
	}
	delete(users, "")
	for _, made := range users {
		add(made)
	}
	return reached
}

// visitors returns the visits of each visitor of a day that the filters keep, in order.
func (n *naive) visitors(rows segment.Rows) map[model.VisitorID][]naiveVisit {
	byVisitor := make(map[model.VisitorID][]naiveVisit)
	for _, v := range visitsOf(rows) {
		if n.kept(&v) {
			byVisitor[v.Visitor] = append(byVisitor[v.Visitor], v)
		}
	}
	for _, visits := range byVisitor {
		slices.SortFunc(visits, func(a, b naiveVisit) int {
			return cmp.Or(cmp.Compare(a.StartedAt, b.StartedAt), cmp.Compare(a.N, b.N))
		})
	}
	return byVisitor
}

// follow returns how many steps a visitor made, and the user id of the visit with the first one.
func (n *naive) follow(steps []scan.Step, visits []naiveVisit) (made int, user string) {
	var rows []funnelRow
	for i, v := range visits {
		for _, view := range v.views {
			rows = append(rows, funnelRow{visit: i, at: view.At, path: view.Path, id: view.ID, user: v.person})
		}
		for _, e := range v.events {
			rows = append(rows, funnelRow{visit: i, at: e.At, event: e.Name, id: e.ID, user: v.person})
		}
	}
	slices.SortFunc(rows, compareRows)

	for _, row := range rows {
		if made == len(steps) || !n.in(row.at) {
			continue
		}
		step := steps[made]
		isView := step.Page != "" && row.event == "" && MatchPattern(step.Page, row.path)
		if isView || step.Page == "" && row.event == step.Event {
			if made++; made == 1 {
				user = row.user
			}
		}
	}
	return made, user
}
