package analytics_test

import (
	"maps"
	"net/http"
	"strings"
	"testing"

	"github.com/tallygate/tallygate/db"
	"github.com/tallygate/tallygate/db/accounts"
	"github.com/tallygate/tallygate/db/ingest"
	"github.com/tallygate/tallygate/db/model"
	"github.com/tallygate/tallygate/db/sites"
	"github.com/tallygate/tallygate/tools/dbtest"
	"github.com/tallygate/tallygate/tools/testkit"
)

// TestStoppedSites: the calls of a paused or deleted site, and of a suspended account's, are
// refused like those of an unknown one within the second, and stored after it is resumed or
// restored. Refused calls of a site that its owner can see are counted.
func TestStoppedSites(t *testing.T) {
	t.Parallel()
	const userAgent = "Mozilla/5.0 (X11; Linux x86_64) AppleWebKit/537.36 (KHTML, like Gecko) Chrome/130.0.0.0 Safari/537.36"

	dbtest.Each(t, func(t *testing.T, d *db.DB) {
		p := newPlane(t, d)
		other := p.site("other.example", 1000)
		site := p.shop("shop.example")
		secret := p.secret(site)
		now := model.At(p.Clock.Now())

		var stored int64
		refused := map[string]int64{} // by endpoint and code
		state := ""

		hit := func() bool {
			status, code := p.Collect(viewCall(site, "", nil))
			switch {
			case status == http.StatusNoContent:
				stored++
			case status == http.StatusNotFound && code == "unknown_site_key":
				refused["collect "+state]++
			default:
				t.Errorf("%s: the answer to a hit is %d %s", state, status, code)
			}
			return status == http.StatusNoContent
		}
		server := func() bool {
			status, body := p.serverCall(http.MethodPost, "Bearer "+secret, `{"event":"signup","ip":"203.0.113.9","user_agent":"`+userAgent+`"}`)
			switch {
			case status == http.StatusOK:
				stored++
			case status == http.StatusUnauthorized && strings.Contains(body, "invalid_secret"):
				refused["server "+state]++
			default:
				t.Errorf("%s: the answer to a server is %d %s", state, status, body)
			}
			return status == http.StatusOK
		}

		for _, test := range []struct {
			code       string
			begin, end func() error
		}{
			{model.RefusedPaused,
				func() error {
					return second(sites.New(d).Sites.PauseSite(t.Context(), site.AccountID, site.ID, true, now))
				},
				func() error {
					return second(sites.New(d).Sites.PauseSite(t.Context(), site.AccountID, site.ID, false, now))
				}},
			{"deleted",
				func() error {
					return second(sites.New(d).Sites.RemoveSite(t.Context(), site.AccountID, site.ID, nil, now))
				},
				func() error {
					return second(sites.New(d).Sites.RestoreSite(t.Context(), site.AccountID, site.ID, false, now))
				}},
			{model.RefusedSuspended,
				func() error { return second(accounts.New(d).Suspend(t.Context(), site.AccountID, "abuse", now)) },
				func() error { return second(accounts.New(d).Resume(t.Context(), site.AccountID, now)) }},
		} {
			state = test.code
			if !hit() || !server() {
				t.Fatalf("%s: refused before", state)
			}
			testkit.NoError(t, test.begin())

			p.Await("the refusal of hits: "+state, func() bool { return !hit() })
			p.Await("the refusal of servers: "+state, func() bool { return !server() })

			testkit.Equal(t, p.Used(site), stored, "%s: hits are counted", state)
			if status, code := p.Collect(viewCall(other, "", nil)); status != http.StatusNoContent {
				t.Errorf("%s: another account's hit: %d %s", state, status, code)
			}

			testkit.NoError(t, test.end())
			p.Await("hits after: "+state, hit)
			p.Await("servers after: "+state, server)
		}

		if used := p.Used(site); used != stored || int64(len(p.Views(site))+len(p.Events(site))) != stored {
			t.Errorf("%d hits are counted, %d and %d stored, want %d", used, len(p.Views(site)), len(p.Events(site)), stored)
		}

		p.Stop()
		counts, err := ingest.New(d).RejectionsOfSites(t.Context(), []model.SiteID{site.ID}, 0)
		testkit.NoError(t, err)

		counted := map[string]int64{}
		for _, r := range counts[site.ID] {
			if r.Code == model.RefusedPaused || r.Code == model.RefusedSuspended {
				counted[r.Endpoint+" "+r.Code] += r.Count
			}
		}
		maps.DeleteFunc(refused, func(name string, _ int64) bool { return strings.HasSuffix(name, "deleted") })
		testkit.EqualMaps(t, counted, refused, "refused calls")
	})
}

// second returns the error of a call that returns a value, too.
func second[T any](_ T, err error) error { return err }
