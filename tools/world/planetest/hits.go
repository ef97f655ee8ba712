package planetest

import (
	"encoding/json"
	"maps"
	"net/http"
	"time"

	"github.com/tallygate/tallygate/db/exports"
	"github.com/tallygate/tallygate/db/ingest"
	"github.com/tallygate/tallygate/db/model"
	"github.com/tallygate/tallygate/db/sites"
	"github.com/tallygate/tallygate/tools/testkit"
)

const collectPath = "/collect.php"

// Collect sends a call and returns its status and error code.
func (p *Plane) Collect(c Call) (status int, code string) {
	p.TB.Helper()

	response, body := p.Send(c)
	if response.StatusCode == http.StatusNoContent {
		return response.StatusCode, ""
	}

	var answer struct{ Error string }
	if err := json.Unmarshal([]byte(body), &answer); err != nil {
		p.TB.Fatalf("status %d with body %q, want a JSON error: %v", response.StatusCode, body, err)
	}

	return response.StatusCode, answer.Error
}

// CollectStored is Collect for calls that many clients send at the same time. On a busy machine a
// hit's turn may come too late for its deadline. It is then answered with 503 and not stored, and
// CollectStored sends it again, as a server does.
func (p *Plane) CollectStored(c Call) (status int, code string) {
	p.TB.Helper()
	for deadline := time.Now().Add(patience); ; {
		status, code = p.Collect(c)
		if status != http.StatusServiceUnavailable || time.Now().After(deadline) {
			return status, code
		}
	}
}

// ViewCall returns the call of a page view of / with further fields of the message.
func ViewCall(site *model.Site, client string, fields map[string]any) Call {
	body := map[string]any{"k": site.SiteKey, "t": "pageview", "p": "/"}
	maps.Copy(body, fields)
	return Call{Body: body, Origin: "https://" + site.Domain, Client: client}
}

// View sends a page view, which must be stored.
func (p *Plane) View(site *model.Site, client string, fields map[string]any) {
	p.TB.Helper()
	if status, code := p.CollectStored(ViewCall(site, client, fields)); status != http.StatusNoContent {
		p.TB.Fatalf("page view %v: %d %s, want 204", fields, status, code)
	}
}

// Event sends an event of the page / without properties, which must be stored.
func (p *Plane) Event(site *model.Site, client, name string) {
	p.TB.Helper()
	call := ViewCall(site, client, map[string]any{"t": "event", "e": name})
	if status, code := p.Collect(call); status != http.StatusNoContent {
		p.TB.Fatalf("event %s: %d %s, want 204", name, status, code)
	}
}

// Views returns all stored page views of a site, with their visits.
func (p *Plane) Views(site *model.Site) []exports.Pageview {
	p.TB.Helper()
	var rows []exports.Pageview
	err := exports.New(p.DB).ExportPageviews(p.TB.Context(), everything(site),
		func(row *exports.Pageview) error { rows = append(rows, *row); return nil })
	testkit.NoError(p.TB, err)
	return rows
}

// Events returns all stored events of a site, with their visits.
func (p *Plane) Events(site *model.Site) []exports.Event {
	p.TB.Helper()
	var rows []exports.Event
	err := exports.New(p.DB).ExportEvents(p.TB.Context(), everything(site),
		func(row *exports.Event) error { rows = append(rows, *row); return nil })
	testkit.NoError(p.TB, err)
	return rows
}

func everything(site *model.Site) exports.Range {
	return exports.Range{SiteID: site.ID, To: 1 << 51, Limit: 1_000_000}
}

// Rejected stops the plane and compares the site's counters of refused and ignored calls, by
// "endpoint code".
func (p *Plane) Rejected(site *model.Site, want map[string]int64) {
	p.TB.Helper()

	p.Stop()
	counts, err := ingest.New(p.DB).RejectionsOfSites(p.TB.Context(), []model.SiteID{site.ID}, 0)
	testkit.NoError(p.TB, err)

	got := make(map[string]int64)
	for _, r := range counts[site.ID] {
		got[r.Endpoint+" "+r.Code] += r.Count
	}

	if !maps.Equal(got, want) {
		p.TB.Errorf("refused and ignored calls %v, want %v", got, want)
	}
}

// Used returns the site's page views in the month of the clock.
func (p *Plane) Used(site *model.Site) int64 {
	p.TB.Helper()
	used, err := sites.New(p.DB).Usage.MonthlyUsage(p.TB.Context(), p.Now().Month(), []model.SiteID{site.ID})
	testkit.NoError(p.TB, err)
	return used[site.ID]
}
