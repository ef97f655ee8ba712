package reports

import (
	"context"
	"crypto/sha256"
	"fmt"
	"slices"
	"time"
	"unsafe"

	"github.com/go-json-experiment/json"

	"github.com/tallygate/tallygate/db/model"
	"github.com/tallygate/tallygate/db/reports/scan"
)

const (
	// answerFor is how long an answer is kept, the same as the least time of today's rows.
	answerFor = 10 * time.Second

	// maxAnswerBytes bounds the memory of all answers. A year with 50,000 different values has
	// about 10 MB.
	maxAnswerBytes = 32 << 20
)

// Payer pays for the reports of a caller.
type Payer interface {
	// PayBefore pays for what a report reads, when it has its turn. Its error ends the request.
	PayBefore(size Size) error
	// PayAfter pays for what a report took, also if it failed.
	PayAfter(took Work)
}

// Answer is Report with an answer that is shared with equal requests: those at the same time wait
// for one count, and those of the next 10 seconds get the same Answer, which must not be changed.
// Its AsOf says until when it counts. After the end of an import, and after one is undone, it is
// counted again.
//
// payer pays for a report that is counted, and not for a shared answer. The caller must have loaded
// the site, which checks the right to see it.
func (s *Store) Answer(ctx context.Context, r Request, payer Payer) (*Answer, error) {
	imports, err := s.completeImports(ctx, r.SiteID)
	if err != nil {
		return nil, err
	}
	asked, ok := questionOf(&r, imports)
	if !ok {
		return s.charged(ctx, &r, payer)
	}

	return s.answers.get(ctx, asked, r.Now, func() (cached[*Answer], error) {
		answer, err := s.charged(ctx, &r, payer)
		if err != nil {
			return cached[*Answer]{}, err
		}

		// An import that ended or was undone during the count may be in the answer or not.
		keep := answerFor
		after, err := s.completeImports(ctx, r.SiteID)
		if err != nil {
			return cached[*Answer]{}, err
		}
		if !slices.Equal(after, imports) {
			keep = 0
		}

		answer.Request = answer.Request.shown()
		return cached[*Answer]{answer, r.Now, keep, sizeOfAnswer(answer)}, nil
	}, nil)
}

// completeImports returns the ids of a site's imports that are part of reports, in order.
func (s *Store) completeImports(ctx context.Context, siteID model.SiteID) ([]int64, error) {
	var ids []int64
	err := s.db.Read.NewSelect().Model((*importRow)(nil)).Column("id").
		Where("site_id = ? AND state = ?", siteID, model.ImportComplete).Order("id").Scan(ctx, &ids)
	if err != nil {
		return nil, fmt.Errorf("list the complete imports of site %d: %w", siteID, err)
	}
	return ids, nil
}

// charged counts a request that its caller pays for.
func (s *Store) charged(ctx context.Context, r *Request, payer Payer) (*Answer, error) {
	p, err := s.plan(ctx, r)
	if err != nil {
		return nil, err
	}

	answer, work, err := p.count(ctx, payer.PayBefore)
	payer.PayAfter(work)
	return answer, err
}

// shown returns the parts of a request that its answer is shown with. Filters, funnels and key
// events can be as large as a request's body, and an answer outlives the request.
func (r Request) shown() Request {
	periods := make([]*scan.Query, len(r.Periods))
	for i, q := range r.Periods {
		periods[i] = &scan.Query{
			Zone: q.Zone, From: q.From, To: q.To, Until: q.Until, Points: q.Points, Hours: q.Hours,
			Breakdowns: q.Breakdowns, Numbers: q.Numbers,
		}
	}
	r.Periods = periods
	return r
}

// question identifies a request. Equal questions have equal answers at the same time. The site is
// not part of the digest, so that no two sites can have a question in common.
type question struct {
	site   model.SiteID
	digest [sha256.Size]byte // of the other fields
}

// questionOf returns the question of a request to a site with these imports. ok is false for texts
// that are not UTF-8, because different ones would become equal. Definitions that change, such as
// the time zone and the key events, are part of it. So are the imports, because other processes
// store and undo them.
func questionOf(r *Request, imports []int64) (q question, ok bool) {
	type period struct {
		Zone     string
		Cut      bool
		CutAfter int64      // ns from Now to Until, which move together
		Query    scan.Query // without its Zone and Until
	}

	periods := make([]period, len(r.Periods))
	for i, p := range r.Periods {
		one := &periods[i]
		one.Zone, one.Cut, one.Query = p.Zone.String(), !p.Until.IsZero(), *p
		one.Query.Zone, one.Query.Until = nil, time.Time{}
		if one.Cut {
			one.CutAfter = int64(p.Until.Sub(r.Now.Time()))
		}
	}

	about := struct {
		Imports []int64
		Periods []period
	}{imports, periods}
	text, err := json.Marshal(about, json.Deterministic(true))
	return question{r.SiteID, sha256.Sum256(text)}, err == nil
}

// sizeOfAnswer estimates the memory of an answer that a cache keeps, in bytes. Its request must be
// a shown one. An answer without a row has a size too: otherwise a cache would keep any number of
// them.
func sizeOfAnswer(a *Answer) int64 {
	const (
		perAnswer    = 1 << 10 // with its place in the cache
		perPeriod    = 1 << 10
		perBreakdown = 256
		perCurrency  = 100
		perFigures   = int64(unsafe.Sizeof(scan.Figures{}))
		perUnknown   = int64(unsafe.Sizeof(scan.Unknown{}))
		perPoint     = int64(unsafe.Sizeof(time.Time{}))
		perProperty  = 100
	)

	n := int64(perAnswer)
	for _, q := range a.Request.Periods {
		n += perPeriod + perPoint*int64(len(q.Points)+len(q.Hours))
		for i := range q.Breakdowns {
			n += perBreakdown + int64(len(q.Breakdowns[i].Property)+len(q.Breakdowns[i].Event))
		}
		for i := range q.Numbers {
			n += perBreakdown + int64(len(q.Numbers[i].Property)+len(q.Numbers[i].Event))
		}
	}

	for _, r := range a.Results {
		n += perCurrency * int64(len(r.Totals.Revenue))
		for _, points := range [][]scan.Figures{r.Points, r.Hours} {
			for i := range points {
				n += perFigures + perCurrency*int64(len(points[i].Revenue))
			}
		}
		for _, steps := range r.Funnels {
			n += perBreakdown + 8*int64(len(steps))
		}
		for _, journey := range r.Journeys {
			n += journey.Bytes()
		}
		n += int64(unsafe.Sizeof(scan.Cohort{})) * int64(len(r.Cohorts))
		if r.Imported != nil {
			n += perPeriod + (perFigures+perUnknown)*int64(len(r.Imported.Points))
		}
		for _, rows := range r.Breakdowns {
			n += rows.Bytes()
		}
		for _, numbers := range r.Numbers {
			n += numbers.Bytes()
		}
		for name := range r.Properties {
			n += perProperty + int64(len(name))
		}
	}
	return n
}
