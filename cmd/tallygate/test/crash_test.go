package test

import (
	"fmt"
	"math/rand/v2"
	"net/http"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/tallygate/tallygate/tools/dbtest"
	"github.com/tallygate/tallygate/tools/testkit"
)

// settingsFor are the settings of a process on a test database.
func settingsFor(t *testing.T, databaseURL string) map[string]string {
	settings := map[string]string{
		"TALLYGATE_DATA_DIR":            t.TempDir(),
		"TALLYGATE_ALLOW_LOCAL_DOMAINS": "true",
		"TALLYGATE_DEFAULT_SITE_PLAN":   "PRO_5M",
		"TALLYGATE_FLOOD_BURST":         "0", // all hits come from one address
	}

	if strings.HasPrefix(databaseURL, "postgres") {
		settings["TALLYGATE_DATABASE_URL"] = databaseURL
	}

	return settings
}

// senders is the number of concurrent browsers.
const senders = 16

// load sends page views until the process stops, and returns the paths of the acknowledged ones.
// Every path is sent once.
func load(t *testing.T, data, siteKey, prefix string, count *atomic.Int64) (acknowledged []string) {
	client := &http.Client{Transport: &http.Transport{MaxIdleConnsPerHost: senders}, Timeout: 10 * time.Second}
	defer client.CloseIdleConnections()

	var mu sync.Mutex
	var wg sync.WaitGroup
	for sender := range senders {
		wg.Go(func() {
			for n := 0; t.Context().Err() == nil; n++ {
				path := fmt.Sprintf("/%s/%d/%d", prefix, sender, n)
				status, err := sendPageview(client, data, siteKey, path)
				if err != nil {
					// The process was killed or drains.
					return
				}

				if status != http.StatusNoContent {
					t.Errorf("%s: %d; a process that still answers stores", path, status)
					return
				}

				mu.Lock()
				acknowledged = append(acknowledged, path)
				mu.Unlock()
				count.Add(1)
			}
		})
	}

	wg.Wait()
	return acknowledged
}

func sendPageview(client *http.Client, data, siteKey, path string) (int, error) {
	return sendPageviewTo(client, "http://"+data, siteKey, path)
}

func sendPageviewTo(client *http.Client, baseURL, siteKey, path string) (int, error) {
	return sendPageviewFrom(client, "https://crash.localhost", baseURL, siteKey, path)
}

func sendPageviewFrom(client *http.Client, origin, baseURL, siteKey, path string) (int, error) {
	body := fmt.Sprintf(`{"k":"%s","t":"pageview","p":"%s"}`, siteKey, path)
	request, err := http.NewRequest(http.MethodPost, baseURL+"/collect.php", strings.NewReader(body))
	if err != nil {
		return 0, err
	}

	request.Header.Set("Origin", origin)
	request.Header.Set("User-Agent", firefox)

	response, err := client.Do(request)
	if err != nil {
		return 0, err
	}

	return response.StatusCode, response.Body.Close()
}

// compare checks that each acknowledged page view is stored exactly once, that no page view is
// stored twice, and that the counter equals the rows. A stored page view without an acknowledgement
// is not a fault: the kill came between the two.
func compare(t *testing.T, o *testOwner, site testSite, acknowledged []string) {
	t.Helper()

	stored := make(map[string]int)
	rows := 0

	cursor := ""
	for {
		page := o.exportAfter(site.ID, cursor)
		for _, row := range page {
			stored[row["path"].(string)]++
			cursor = row["row_id"].(string)
		}

		rows += len(page)

		if len(page) < exportLimit {
			break
		}
	}

	lost := 0
	for _, path := range acknowledged {
		if stored[path] == 0 {
			lost++
		}
	}

	doubled, used := rows-len(stored), o.used(site.ID)
	t.Logf("%d acknowledged, %d stored: %d lost, %d doubled; counter %d", len(acknowledged), rows, lost, doubled, used)
	if lost > 0 || doubled > 0 || used != rows {
		t.Error("acknowledged and stored page views differ")
	}
}

// TestKillLosesNothing kills the process under load repeatedly, on the same data.
func TestKillLosesNothing(t *testing.T) {
	testkit.SkipLong(t, "faults of processes")
	t.Parallel()

	const rounds = 5
	dbtest.EachURL(t, func(t *testing.T, databaseURL string) {
		settings := settingsFor(t, databaseURL)
		random := rand.New(rand.NewPCG(2026, 11))
		var site testSite

		var acknowledged []string
		for round := range rounds {
			p := start(t, settings, []string{"control", "data"})

			if round == 0 {
				site = newOwner(t, p).signUp("crash.localhost")
			}

			count, finished := startLoad(t, p, site.SiteKey, fmt.Sprint(round))
			killUnderLoad(t, p, count, time.Duration(random.IntN(150))*time.Millisecond)
			acknowledged = append(acknowledged, <-finished...)
		}

		compareAfterStart(t, settings, site, acknowledged)
	})
}

// killUnderLoad kills a process a random time after its first responses. Waiting for an event alone
// would always kill at the same step of the work.
func killUnderLoad(t *testing.T, p *process, answers *atomic.Int64, after time.Duration) {
	t.Helper()

	awaitResponses(t, p, answers, 1)

	select {
	case <-p.done:
		t.Fatalf("tallygate ended by itself:\n%s", p.logged())
	case <-time.After(after):
	}

	p.kill()
}

// awaitResponses waits until a process under load has sent n responses.
func awaitResponses(t *testing.T, p *process, answers *atomic.Int64, n int64) {
	t.Helper()
	eventually(t, p, func() bool { return answers.Load() >= n })
}

// TestSlowDownloadDoesNotHoldTheDrain checks that a client that does not read its download delays
// neither hits nor the drain.
func TestSlowDownloadDoesNotHoldTheDrain(t *testing.T) {
	testkit.SkipLong(t, "faults of processes")
	t.Parallel()

	settings := settingsFor(t, "sqlite:")
	p := start(t, settings, []string{"control", "data"})
	o := newOwner(t, p)
	site := o.signUp("crash.localhost")
	long := strings.Repeat("x", 2_000)
	client := &http.Client{Transport: &http.Transport{MaxIdleConnsPerHost: senders}, Timeout: patience}
	defer client.CloseIdleConnections()

	var wg sync.WaitGroup

	// The hits share commits.
	for sender := range senders {
		wg.Go(func() {
			// Together they exceed the sockets' buffers.
			for n := range 3_000 / senders {
				if status, err := sendPageview(client, p.addr["data"], site.SiteKey, fmt.Sprintf("/%d/%d/%s",
					sender, n, long)); err != nil || status != http.StatusNoContent {
					t.Error(status, err)
					return
				}
			}
		})
	}

	wg.Wait()
	o.HTTP.Timeout = 0
	response, err := o.HTTP.Get(o.Origin +
		"/products/analytics/api/export.php?type=pageviews&from=2000-01-01&to=2100-01-01&limit=50000&site_id=" + site.ID)
	if err != nil || response.StatusCode != http.StatusOK {
		t.Fatal(response, err)
	}

	// The body is not read.
	defer response.Body.Close()

	p.stopsCleanly()
}

// TestTermDrains checks that after SIGTERM under load nothing accepted is lost and the exit status
// is 0. The drained process runs under the race detector if the test does.
func TestTermDrains(t *testing.T) {
	dbtest.ParallelURL(t, func(t *testing.T, databaseURL string) {
		settings := settingsFor(t, databaseURL)
		settings[asProgram] = "1"
		p := start(t, settings, []string{"control", "data"})
		site := newOwner(t, p).signUp("crash.localhost")
		count, finished := startLoad(t, p, site.SiteKey, "drain")
		awaitResponses(t, p, count, 200)
		p.stopsCleanly()

		acknowledged := <-finished
		delete(settings, asProgram)
		o := compareAfterStart(t, settings, site, acknowledged)
		if stored := len(o.export(site.ID)); stored != len(acknowledged) {
			t.Errorf("%d stored, %d acknowledged: a drained process answers every request it takes",
				stored, len(acknowledged))
		}
	})
}
