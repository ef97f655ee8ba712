package analytics_test

import (
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"net/netip"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/tallygate/tallygate/dataplane/analytics"
	"github.com/tallygate/tallygate/dataplane/bot"
	"github.com/tallygate/tallygate/dataplane/operatorfile"
	"github.com/tallygate/tallygate/db"
	"github.com/tallygate/tallygate/db/ingest"
	"github.com/tallygate/tallygate/db/model"
	"github.com/tallygate/tallygate/db/sites"
	"github.com/tallygate/tallygate/tools/countrytest"
	"github.com/tallygate/tallygate/tools/dbtest"
	"github.com/tallygate/tallygate/tools/testkit"
)

const (
	german    = "198.51.100.20" // in Germany, by newPlaceful
	swiss     = "198.51.100.200"
	elsewhere = "203.0.113.5" // in no country
	inCloud   = "192.0.2.130" // in Germany, and in a network of a data centre
)

// anyHost stands for the hostname that a call has.
const anyHost = "*"

const iPhone = "Mozilla/5.0 (iPhone; CPU iPhone OS 18_5 like Mac OS X) AppleWebKit/605.1.15 (KHTML, like Gecko) Version/18.5 Mobile/15E148 Safari/604.1"

// places are the operator's files.
type places struct {
	countries *operatorfile.File[*operatorfile.Countries]
	spam      *operatorfile.File[*operatorfile.Domains]
	clouds    *operatorfile.File[*operatorfile.Networks]
}

// openPlaces writes and opens the files: countries by network, one domain and one network.
func openPlaces(tb testing.TB, countries map[string]string) *places {
	tb.Helper()
	source := func(name string, data []byte) operatorfile.Source {
		path := filepath.Join(tb.TempDir(), name)
		testkit.NoError(tb, os.WriteFile(path, data, 0o600))
		return operatorfile.Source{Setting: name, Path: path, Now: time.Now, Log: slog.New(slog.NewTextHandler(io.Discard, nil))}
	}

	var p places
	var err error
	if p.countries, err = operatorfile.OpenCountries(source("countries.mmdb", countrytest.Countries(tb, noon, countries))); err != nil {
		tb.Fatal(err)
	}
	if p.spam, err = operatorfile.OpenDomains(source("spam.txt", []byte("spam.example\n"))); err != nil {
		tb.Fatal(err)
	}
	if p.clouds, err = operatorfile.OpenNetworks(source("clouds.txt", []byte("192.0.2.128/25\n"))); err != nil {
		tb.Fatal(err)
	}
	return &p
}

// use lets a service use the files.
func (p *places) use(o *analytics.Options) {
	o.Country = func(addr netip.Addr) string { return p.countries.Value().Country(addr) }
	o.IsSpam = func(host string) bool { return p.spam.Value().Contains(host) }
	o.IsDataCentre = func(addr netip.Addr) bool { return p.clouds.Value().Contains(addr) }
}

// newPlaceful returns a data plane with a database of countries and both lists.
func newPlaceful(t *testing.T, d *db.DB) *plane {
	t.Helper()
	files := openPlaces(t, map[string]string{"198.51.100.0/25": "DE", "198.51.100.128/25": "CH", "192.0.2.128/25": "DE"})
	return newPlaneWith(t, d, files.use)
}

func (p *plane) update(site *model.Site, u sites.SiteUpdate) {
	p.TB.Helper()
	testkit.NoError(p.TB, sites.New(p.DB).Sites.UpdateSite(p.TB.Context(), site.AccountID, site.ID, u))
}

// TestVisitKeepsItsClient checks what the visit of a page view keeps, for each choice of its site.
func TestVisitKeepsItsClient(t *testing.T) {
	dbtest.Parallel(t, func(t *testing.T, d *db.DB) {
		p := newPlaceful(t, d)
		for i, test := range []struct {
			name    string
			details model.List[model.VisitDetail]
			visitor string
			agent   string
			prefix  string // of the hostname
			header  http.Header
			want    model.Client
		}{
			{"nothing", nil, german, chrome, "", nil, model.Client{}},
			{"everything", model.VisitDetails, german, chrome, "", nil,
				model.Client{Country: "DE", Browser: model.Chrome, System: model.Linux, Device: model.Desktop, Host: anyHost}},
			{"a phone on a subdomain", model.VisitDetails, swiss, iPhone, "m.", nil,
				model.Client{Country: "CH", Browser: model.Safari, System: model.IOS, Device: model.Phone, Host: anyHost}},
			{"an address in no country", model.VisitDetails, elsewhere, iPhone, "", nil,
				model.Client{Browser: model.Safari, System: model.IOS, Device: model.Phone, Host: anyHost}},
			{"only the country", model.List[model.VisitDetail]{model.DetailCountry}, german, iPhone, "", nil, model.Client{Country: "DE"}},
			{"only the browser", model.List[model.VisitDetail]{model.DetailBrowser}, german, iPhone, "", nil, model.Client{Browser: model.Safari}},
			{"only the system", model.List[model.VisitDetail]{model.DetailSystem}, german, iPhone, "", nil, model.Client{System: model.IOS}},
			{"only the device", model.List[model.VisitDetail]{model.DetailDevice}, german, iPhone, "", nil, model.Client{Device: model.Phone}},
			{"only the hostname", model.List[model.VisitDetail]{model.DetailHostname}, german, iPhone, "", nil, model.Client{Host: anyHost}},
			{"client hints", model.List[model.VisitDetail]{model.DetailBrowser}, german, chrome, "",
				http.Header{"Sec-Ch-Ua": {`"Brave";v="142", "Chromium";v="142", "Not_A Brand";v="99"`}}, model.Client{Browser: model.Brave}},
		} {
			domain := fmt.Sprintf("a%d.example", i)
			site := p.site(domain, quota)
			p.update(site, sites.SiteUpdate{VisitDetails: &test.details})
			if test.want.Host == anyHost {
				test.want.Host = test.prefix + domain
			}

			c := viewCall(site, test.visitor, nil)
			c.Agent, c.Origin, c.Header = test.agent, "https://"+test.prefix+domain, test.header
			if status, code := p.Collect(c); status != http.StatusNoContent {
				t.Fatalf("%s: %d %s", test.name, status, code)
			}
			if rows := p.Views(site); len(rows) != 1 || rows[0].Client != test.want {
				t.Errorf("%s: %+v, want %+v", test.name, rows, test.want)
			}
		}
	})
}

// TestAgentsOfVisits sends a page view of each agent of the agents' table, and compares what its
// visit has stored with what a person reads in the agent.
func TestAgentsOfVisits(t *testing.T) {
	t.Parallel()
	text, err := os.ReadFile("../agent/testdata/agents.tsv")
	testkit.NoError(t, err)
	var want []model.Client
	var agents []string
	for line := range strings.Lines(string(text)) {
		fields := strings.Split(strings.TrimRight(strings.ReplaceAll(line, "\t-\t", "\t\t"), "\n"), "\t")
		if strings.HasPrefix(line, "#") || len(fields) != 4 || bot.Is(fields[3]) || strings.Contains(line, knownWrong) {
			continue
		}
		country, browser := []string{"DE", "CH"}[len(agents)%2], strings.TrimPrefix(fields[0], "-")
		want = append(want, model.Client{Country: country, Browser: model.Browser(browser), System: model.System(fields[1]),
			Device: model.Device(fields[2]),
			Host:   "a.example"})
		agents = append(agents, fields[3])
	}
	if len(agents) < 300 {
		t.Fatalf("%d agents", len(agents))
	}

	dbtest.Each(t, func(t *testing.T, d *db.DB) {
		p := newPlaceful(t, d)
		site := p.site("a.example", quota)
		all := model.List[model.VisitDetail](model.VisitDetails)
		p.update(site, sites.SiteUpdate{VisitDetails: &all})

		for i, agent := range agents {
			c := viewCall(site, []string{german, swiss}[i%2], map[string]any{"p": fmt.Sprintf("/%d", i)})
			c.Agent = agent
			if status, code := p.CollectStored(c); status != http.StatusNoContent {
				t.Fatalf("%s: %d %s", agent, status, code)
			}
		}

		rows := p.Views(site)
		testkit.Equal(t, len(rows), len(agents), "rows of %d agents", len(agents))
		for _, row := range rows {
			var i int
			if _, err := fmt.Sscanf(row.Path, "/%d", &i); err != nil {
				t.Fatal(err)
			}
			testkit.Equal(t, row.Client, want[i], "%s: stored", agents[i])
		}
	})
}

// knownWrong is in the only agent of the table that is read wrongly.
const knownWrong = "Maemo"

// TestFirstBrowserHitSetsTheClient checks that a visit that a server event opened takes the values
// of its first browser hit, that nothing is derived from what servers send, and that later hits
// change nothing.
func TestFirstBrowserHitSetsTheClient(t *testing.T) {
	dbtest.Parallel(t, func(t *testing.T, d *db.DB) {
		p := newPlaceful(t, d)
		site := p.shop("a.example")
		secret := p.secret(site)
		all := model.List[model.VisitDetail](model.VisitDetails)
		p.update(site, sites.SiteUpdate{VisitDetails: &all, ExcludedCountries: &model.List[string]{"CH"}})

		sendEvent := func(ip string) (int, string) {
			return p.serverCall(http.MethodPost, "Bearer "+secret, fmt.Sprintf(`{"event":"signup","ip":%q,"user_agent":%q}`, ip, chrome))
		}
		client := func() model.Client {
			t.Helper()
			clients, err := dbtest.Rows[struct{ Client string }](d, "SELECT client FROM visits WHERE site_id = ?", site.ID)
			if err != nil || len(clients) != 1 {
				t.Fatalf("%d visits, error %v", len(clients), err)
			}
			return model.UnpackClient(clients[0].Client)
		}

		// A server's event is stored from any country.
		if status, body := sendEvent(swiss); status != http.StatusOK ||
			!strings.Contains(body, "recorded") {
			t.Fatalf("a server's event: %d %s", status, body)
		}
		testkit.Equal(t, client(), (model.Client{}), "a server's event set")
		testkit.NoError(t, dbtest.Exec(d, "DELETE FROM visits WHERE site_id = ?", site.ID))

		if status, body := sendEvent(german); status != http.StatusOK {
			t.Fatalf("a server's event: %d %s", status, body)
		}
		p.Event(site, german, "signup")
		want := model.Client{Country: "DE", Browser: model.Chrome, System: model.Linux, Device: model.Desktop, Host: "a.example"}
		testkit.Equal(t, client(), want, "after the first browser hit")

		second := viewCall(site, german, map[string]any{"t": "event", "e": "signup"})
		second.Origin = "https://m.a.example"
		if status, code := p.Collect(second); status != http.StatusNoContent {
			t.Fatalf("%d %s", status, code)
		}
		testkit.Equal(t, client(), want, "a later hit changed it to")
	})
}

// TestLeftOutHits checks each way to leave hits out, that it is counted under its reason, and that
// other hits are stored.
func TestLeftOutHits(t *testing.T) {
	dbtest.Parallel(t, func(t *testing.T, d *db.DB) {
		p := newPlaceful(t, d)
		site := p.site("a.example", quota)
		countries, paths, shields := model.List[string]{"CH"}, model.List[string]{"/admin/**", "/login"}, model.List[model.Shield](model.Shields)

		calls := []struct {
			visitor, path, referrer, reason string
		}{
			{swiss, "/", "", "excluded_country"},
			{german, "/admin/users/1", "", "excluded_path"},
			{german, "/login?next=/", "", "excluded_path"},
			{inCloud, "/", "", "data_centre"},
			{german, "/", "https://spam.example/buy", "referrer_spam"},
			{german, "/", "https://www.spam.example/", "referrer_spam"},
			{german, "/administration", "https://notspam.example/", ""},
			{elsewhere, "/", "", ""},
		}
		send := func() {
			t.Helper()
			for _, c := range calls {
				p.View(site, c.visitor, map[string]any{"p": c.path, "r": c.referrer})
			}
		}

		// Without the settings all hits are stored.
		p.awaitNotifications(site)
		send()
		testkit.Require(t, len(p.Views(site)), len(calls), "rows before")

		p.update(site, sites.SiteUpdate{ExcludedCountries: &countries, ExcludedPaths: &paths, Shields: &shields})
		p.Await("the change of settings", func() bool {
			before := len(p.Views(site))
			p.View(site, german, map[string]any{"p": "/login"})
			return len(p.Views(site)) == before
		})
		before := len(p.Views(site))
		send()
		testkit.Equal(t, len(p.Views(site))-before, 2, "rows were added")

		want := map[string]int64{"collect excluded_path": 1} // the last probe
		for _, c := range calls {
			if c.reason != "" {
				want["collect "+c.reason]++
			}
		}
		p.Stop()
		counts, err := ingest.New(d).RejectionsOfSites(t.Context(), []model.SiteID{site.ID}, 0)
		testkit.NoError(t, err)
		got := make(map[string]int64)
		for _, r := range counts[site.ID] {
			// awaitNotifications sends calls of other domains.
			if r.Code != "domain_not_allowed" {
				got[r.Endpoint+" "+r.Code] += r.Count
			}
		}
		testkit.EqualMaps(t, got, want, "ignored calls")
	})
}
