package test

import (
	"encoding/csv"
	"encoding/json"
	"net"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/tallygate/tallygate/tools/browsertest"
	"github.com/tallygate/tallygate/tools/dbtest"
	"github.com/tallygate/tallygate/tools/redistest"
	"github.com/tallygate/tallygate/tools/testkit"
)

// TestMainJobChromium tests the main use end to end: an owner gets a site key over GraphQL, a real
// browser loads a page with the script, and the owner downloads the stored page view. The page is
// the demo's.
func TestMainJobChromium(t *testing.T) {
	testkit.SkipLong(t, "Chromium")
	t.Run("sqlite", func(t *testing.T) {
		mainJob(t, map[string]string{"TALLYGATE_DATA_DIR": t.TempDir()})
	})

	t.Run("postgres with RealRedis", func(t *testing.T) {
		mainJob(t, map[string]string{
			"TALLYGATE_DATA_DIR":     t.TempDir(),
			"TALLYGATE_DATABASE_URL": dbtest.PostgresURL(t),
			"TALLYGATE_REDIS_URL":    redistest.URL(t),
		})
	})
}

func mainJob(t *testing.T, settings map[string]string) {
	settings["TALLYGATE_DEMO_ADDR"] = "127.0.0.1:0"
	p := start(t, settings, []string{"control", "data", "demo"}, "demo")
	_, port, err := net.SplitHostPort(p.addr["demo"])
	testkit.NoError(t, err)

	shop := "http://demo.localhost:" + port

	owner := newOwner(t, p)
	login := p.demoLogin(settings["TALLYGATE_DATA_DIR"])
	owner.SignIn(login.Email, login.Password)
	var data struct {
		Sites struct {
			Edges []struct{ Node testSite }
		}
	}

	owner.do(`{ sites(first: 1) { edges { node { id siteKey scriptTag } } } }`, &data)
	site := data.Sites.Edges[0].Node

	// The site begins with its history.
	before := owner.used(site.ID)

	browser := browsertest.New(t, browsertest.Host("demo.localhost", "http://"+p.addr["demo"]))
	page := browser.Open(shop + "/shop?utm_source=Newsletter&utm_medium=email&utm_campaign=Spring&card=secret-number#top")

	// The page's list shows the owner's download.
	const spring = `[...document.querySelectorAll('#rows tr')].filter((tr) => tr.textContent.includes('/ spring')).length`
	page.WaitFor(spring + ` > 0`)

	wantQuietConsole(t, page)

	page.Click(`nav a[href="/about"]`)
	page.WaitFor(`location.pathname === '/about' && ` + spring + ` > 1`)

	rows := slices.DeleteFunc(owner.export(site.ID), func(row map[string]any) bool { return row["utm_campaign"] != "spring" })
	if len(rows) != 2 {
		t.Fatalf("%d page views exported, want 2: %v", len(rows), rows)
	}

	for i, want := range []map[string]any{
		{"path": "/shop", "channel": "email", "utm_source": "newsletter", "utm_medium": "email",
			"utm_campaign": "spring",
			"referrer":     nil, "language": "en", "screen_width": "768-991", "visit_pageviews": 2.0},
		{"path": "/about", "channel": "email", "utm_campaign": "spring", "visit_pageviews": 2.0,
			"visit_id": rows[0]["visit_id"]},
	} {
		for column, value := range want {
			testkit.Equal(t, rows[i][column], value, "row %d, %s", i, column)
		}
	}

	if all, err := json.Marshal(rows); err != nil || strings.Contains(string(all), "secret-number") {
		t.Errorf("the query string left the page: %s, %v", all, err)
	}
	if stored, err := time.Parse(time.RFC3339Nano, rows[0]["time"].(string)); err != nil ||
		time.Since(stored).Abs() > time.Hour {
		t.Errorf("time %v, %v", rows[0]["time"], err)
	}
	if used := owner.used(site.ID); used != before+2 {
		t.Errorf("usage %d after %d, want 2 more", used, before)
	}

	today := time.Now().UTC().Format(time.DateOnly)
	download := owner.download("site_id=" + site.ID + "&type=pageviews&format=csv&from=" + today + "&to=" + today)
	records, err := csv.NewReader(strings.NewReader(string(download))).ReadAll()
	stored := slices.DeleteFunc(records, func(record []string) bool { return !slices.Contains(record, "spring") })
	if err != nil || len(stored) != 2 {
		t.Errorf("CSV of %d records of the visit, want two; %v", len(stored), err)
	}
}
