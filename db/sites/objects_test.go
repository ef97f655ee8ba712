package sites_test

import (
	"errors"
	"fmt"
	"sync"
	"testing"

	"github.com/tallygate/tallygate/db"
	"github.com/tallygate/tallygate/db/model"
	"github.com/tallygate/tallygate/db/sites"
	"github.com/tallygate/tallygate/tools/dbtest"
	"github.com/tallygate/tallygate/tools/testkit"
	"github.com/tallygate/tallygate/tools/world"
)

// TestObjectsAreBounded: of 60 objects that two processes create concurrently, exactly as many are
// stored as a site can have.
func TestObjectsAreBounded(t *testing.T) {
	dbtest.ParallelURL(t, func(t *testing.T, databaseURL string) {
		processes := []*db.DB{dbtest.Open(t, databaseURL), dbtest.Open(t, databaseURL)}
		site := world.New(t, processes[0]).Site("example.com")

		for _, kind := range []struct {
			table, code string
			create      func(s *sites.Store, name string) error
		}{
			{"segments", "too_many_segments", func(s *sites.Store, name string) error {
				_, err := s.Objects.CreateSegment(t.Context(), site.AccountID, model.Segment{SiteID: site.ID, Name: name,
					Filters: []model.ReportFilter{{Dimension: "PAGE", Operator: "IS", Values: []string{"/"}}}})
				return err
			}},
			{"funnels", "too_many_funnels", func(s *sites.Store, name string) error {
				_, err := s.Objects.CreateFunnel(t.Context(), site.AccountID, model.Funnel{SiteID: site.ID, Name: name,
					Steps: []model.FunnelStep{{Page: "/"}, {Event: "signup"}}})
				return err
			}},
			{"shared_links", "too_many_shared_links", func(s *sites.Store, name string) error {
				_, err := s.Objects.CreateSharedLink(t.Context(), site.AccountID, model.SharedLink{SiteID: site.ID, Name: name,
					TokenHash: model.HashToken(name), TokenHint: "hint", CreatedAt: dbtest.Start})
				return err
			}},
		} {
			var creators sync.WaitGroup
			errs := make([]error, 60)
			for i := range errs {
				creators.Go(func() { errs[i] = kind.create(sites.New(processes[i%2]), fmt.Sprint("object ", i)) })
			}
			creators.Wait()

			refused := 0
			for _, err := range errs {
				if e, ok := errors.AsType[*model.Error](err); ok && e.Code == kind.code {
					refused++
				} else if err != nil {
					t.Errorf("%s: %v", kind.table, err)
				}
			}
			if n, err := dbtest.Count(processes[0], kind.table); err != nil || n != 50 || refused != 10 {
				t.Errorf("%s: %d stored, %d refused, %v", kind.table, n, refused, err)
			}
		}
	})
}

// TestAnnotationsAreBounded: the 1,001st annotation of a site is refused.
func TestAnnotationsAreBounded(t *testing.T) {
	dbtest.Parallel(t, func(t *testing.T, d *db.DB) {
		site := world.New(t, d).Site("example.com")
		err := dbtest.Exec(d, `WITH RECURSIVE n (i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < 999)
			INSERT INTO annotations (site_id, day, text, created_at) SELECT ?, i, 'note', 1 FROM n`, site.ID)
		testkit.NoError(t, err)

		note := model.Annotation{SiteID: site.ID, Day: 1, Text: "note"}
		if _, err := sites.New(d).Objects.CreateAnnotation(t.Context(), site.AccountID, note); err != nil {
			t.Fatal(err)
		}
		_, err = sites.New(d).Objects.CreateAnnotation(t.Context(), site.AccountID, note)
		dbtest.WantCode(t, err, model.Conflict, "too_many_annotations", "")
	})
}
