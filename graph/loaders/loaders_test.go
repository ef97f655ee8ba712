package loaders

import (
	"context"
	"slices"
	"testing"

	"github.com/tallygate/tallygate/db/model"
)

func TestOneStatementForAList(t *testing.T) {
	for _, n := range []int{1, 50} {
		statements := 0
		l := &Set{made: make(map[field]any)}
		loader := loader(l, field{"usage", nil}, &l.sites, func(_ context.Context, ids []model.SiteID) (map[model.SiteID]int64, error) {
			statements++
			if n := len(slices.Compact(slices.Sorted(slices.Values(ids)))); n != len(ids) {
				t.Errorf("%d ids, %d of them different", len(ids), n)
			}
			return map[model.SiteID]int64{ids[0]: 5}, nil
		})

		var sites []*model.Site
		for i := range n {
			sites = append(sites, &model.Site{ID: model.SiteID(i + 1)})
		}

		l.Expect(sites)

		for range 2 {
			for _, site := range sites {
				got, err := loader.Of(t.Context(), site.ID)
				if want := int64(5); err != nil || (got == want) != (site.ID == 1) {
					t.Errorf("site %d: %d, %v", site.ID, got, err)
				}
			}
		}

		if statements != 1 {
			t.Errorf("%d sites took %d statements, want 1", n, statements)
		}
		if _, err := loader.Of(t.Context(), 1000); err != nil || statements != 2 {
			t.Errorf("a site that was not announced: %d statements, %v", statements, err)
		}
	}
}
