package resolver

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"time"

	"github.com/99designs/gqlgen/graphql"

	"github.com/tallygate/tallygate/db/model"
	"github.com/tallygate/tallygate/db/reports/question"
	"github.com/tallygate/tallygate/db/reports/scan"
	"github.com/tallygate/tallygate/graph/figures"
	"github.com/tallygate/tallygate/graph/generated"
)

// Journeys and cohorts of a report: what visits and user ids did next.

// addJourney adds the journey of a field.
func (s *selected) addJourney(args map[string]any) error {
	encoded, err := json.Marshal(args["from"])
	if err != nil {
		return err
	}
	var from generated.JourneyStartInput
	if err := json.Unmarshal(encoded, &from); err != nil {
		return err
	}
	steps, err := graphql.UnmarshalInt(args["steps"])
	if err != nil {
		return invalidArgument("steps", wrongJourneySteps)
	}
	journey, err := journeyOf(from, generated.JourneyDirection(text(args, "direction")), steps)
	if err != nil {
		return err
	}

	key, err := journeyKey(&journey)
	if err != nil || slices.Contains(s.journeyKeys, key) {
		return err
	}
	s.journeys, s.journeyKeys = append(s.journeys, journey), append(s.journeyKeys, key)
	return nil
}

var (
	wrongJourneySteps = fmt.Sprintf("The argument steps must be from 1 to %d.", scan.MaxJourneySteps)
	wrongJourneyPages = fmt.Sprintf("The argument first must be from 1 to %d.", scan.MaxJourneyPages)
)

// journeyOf checks and converts the arguments of a journey.
func journeyOf(from generated.JourneyStartInput, direction generated.JourneyDirection, steps int) (scan.Journey, error) {
	start := model.FunnelStep{Page: orBlank(from.Page), Event: orBlank(from.Event)}
	if err := model.CheckJourneyStart("from", start); err != nil {
		return scan.Journey{}, err
	}
	if steps < 1 || steps > scan.MaxJourneySteps {
		return scan.Journey{}, invalidArgument("steps", wrongJourneySteps)
	}
	return scan.Journey{
		From:   scan.Step{Page: start.Page, Event: start.Event},
		Before: direction == generated.JourneyDirectionBefore, Steps: steps,
	}, nil
}

// journeyKey identifies a journey among those of a request.
func journeyKey(journey *scan.Journey) (string, error) {
	key, err := json.Marshal(journey)
	return string(key), err
}

func (r *reportResolver) Journey(
	ctx context.Context, obj *generated.Report, from generated.JourneyStartInput, direction generated.JourneyDirection,
	steps, first int,
) (*generated.Journey, error) {
	if first < 1 || first > scan.MaxJourneyPages {
		return nil, invalidArgument("first", wrongJourneyPages)
	}
	journey, err := journeyOf(from, direction, steps)
	if err != nil {
		return nil, err
	}
	key, err := journeyKey(&journey)
	if err != nil {
		return nil, err
	}

	start := obj.Answer.Results[0].Journeys[slices.Index(obj.Journeys, key)]
	least := obj.Question.LeastOf(model.DimensionPage)
	if least > 0 && start.Visitors < int64(least) {
		return nil, question.TooSmall("from", "have such a page view or event", least)
	}
	shown := &shownJourney{request: requestOf(ctx), first: first, least: int64(least)}
	next, err := shown.below(start, journey.Steps)
	return &generated.Journey{Visits: start.Visits, Next: next}, err
}

// shownJourney converts the nodes of a journey.
type shownJourney struct {
	request *request
	first   int
	least   int64 // nodes of fewer visitors are not shown
}

// below returns the nodes below a node, with as many further steps. Their visits add up to the
// node's.
func (s *shownJourney) below(n *scan.JourneyNode, steps int) ([]*generated.JourneyNode, error) {
	list := []*generated.JourneyNode{}
	if n.End || steps == 0 {
		return list, nil
	}

	other, pages := n.Visits, 0
	for i := range n.Next {
		next := &n.Next[i]
		if next.Visitors < s.least || !next.End && pages == s.first {
			continue
		}
		node, err := s.node(next, n.Visits, steps-1)
		if err != nil {
			return nil, err
		}
		if !next.End {
			pages++
		}
		other -= next.Visits
		list = append(list, node)
	}

	if other > 0 {
		list = append(list, &generated.JourneyNode{
			Kind: generated.JourneyNodeKindOther, Visits: other, Share: figures.Ratio(other, n.Visits, 100),
			Next: []*generated.JourneyNode{},
		})
	}
	return list, nil
}

// node converts a node below one of so many visits.
func (s *shownJourney) node(n *scan.JourneyNode, above int64, steps int) (*generated.JourneyNode, error) {
	if err := s.request.takeRow(rowBytes(n.Page, nil)); err != nil {
		return nil, err
	}
	node := &generated.JourneyNode{
		Kind: generated.JourneyNodeKindPage, Page: &n.Page, Visits: n.Visits, Share: figures.Ratio(n.Visits, above, 100),
	}
	if n.End {
		node.Kind, node.Page = generated.JourneyNodeKindEnd, nil
	}

	var err error
	node.Next, err = s.below(n, steps)
	return node, err
}

// Cohorts returns what was counted with the report. An error is of this field alone: cohorts read
// more than the period, so they can be too expensive for a site with a cheap report.
func (r *reportResolver) Cohorts(_ context.Context, obj *generated.Report) (*generated.CohortReport, error) {
	return obj.Cohorts, obj.CohortsErr
}

// cohorts counts the cohorts of a question's period, from the site's first day with user ids on. It
// returns nil for a site without user ids. Small groups are not shown.
func (r *Resolver) cohorts(ctx context.Context, q *question.Question) (*generated.CohortReport, error) {
	if !q.Site.AllowPseudonymousUserID {
		return nil, nil
	}
	weeks, err := q.Weeks()
	if err != nil {
		return nil, err
	}
	if weeks.Last.Compare(weeks.First) < 0 {
		return &generated.CohortReport{Weeks: []*generated.Cohort{}}, nil
	}

	from := weeks.First
	day, ok, err := r.reports.FirstUserDay(ctx, q.Site.ID)
	if err != nil {
		return nil, err
	}
	if ok {
		from = q.FirstDay(day)
	}

	answer, err := r.answer(ctx, q, q.CohortRequest(weeks, from))
	if err != nil {
		return nil, err
	}
	end := weeks.Last.AddDays(1).Start(q.Zone)
	if q.Now.Time().Before(end) {
		end = q.Now.Time()
	}
	return shownCohorts(answer.Results[0].Cohorts, weeks.First, end, q), nil
}

// shownCohorts converts cohorts that are counted up to end. The first one begins on a Monday.
func shownCohorts(cohorts []scan.Cohort, first scan.Date, end time.Time, q *question.Question) *generated.CohortReport {
	report := &generated.CohortReport{Weeks: make([]*generated.Cohort, len(cohorts))}
	for i := range cohorts {
		start := first.AddDays(i * question.DaysOfWeek)
		cohort := &generated.Cohort{
			Start: start.Number(), Users: usersOf(cohorts[i].Users, q.Least), Returned: []*generated.CohortReturn{},
		}
		for n, users := range cohorts[i].Returned {
			begin := start.AddDays((n + 1) * question.DaysOfWeek)
			if !begin.Start(q.Zone).Before(end) {
				break
			}

			returned := &generated.CohortReturn{
				Week: n + 1, Users: usersOf(users, q.Least), Partial: end.Before(begin.AddDays(question.DaysOfWeek).Start(q.Zone)),
			}

			switch {
			case cohort.Users == nil:
				// Not even zeros: they would follow one or two people.
				returned.Users = nil
			case returned.Users != nil:
				returned.Rate = figures.Ratio(users, cohorts[i].Users, 100)
			}
			cohort.Returned = append(cohort.Returned, returned)
		}
		report.Weeks[i] = cohort
	}
	return report
}

// usersOf returns a number of user ids, or nil if it is a small group. Cohorts follow people over
// weeks, so this holds without a personal filter.
func usersOf(n int64, least int) *int64 {
	if n > 0 && n < int64(least) {
		return nil
	}
	return &n
}
