package test

import (
	"fmt"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/tallygate/tallygate/db/model"
	"github.com/tallygate/tallygate/tools/testkit"
)

// TestFloodSettings checks that the flood limit's settings reach the data plane.
func TestFloodSettings(t *testing.T) {
	t.Parallel()

	const sent = 20
	for burst, least := range map[string]int{"2": 2, "0": sent} {
		t.Run("burst "+burst, func(t *testing.T) {
			t.Parallel()

			settings := settingsFor(t, "sqlite:")
			settings["TALLYGATE_FLOOD_BURST"], settings["TALLYGATE_FLOOD_RATE"] = burst, "1"
			p := start(t, settings, []string{"control", "data"})
			o := newOwner(t, p)
			site := o.signUp("crash.localhost")
			before := time.Now()

			for i := range sent {
				if status, err := sendPageview(http.DefaultClient, p.addr["data"], site.SiteKey,
					fmt.Sprint("/", i)); status != http.StatusNoContent || err != nil {
					t.Fatalf("page view %d: %d, %v", i, status, err)
				}
			}

			// On a slow machine the bucket has time to refill.
			most := min(sent, least+int(time.Since(before)/time.Second)+1)
			if got := o.used(site.ID); got < least || got > most {
				t.Errorf("%d page views are stored, want %d to %d", got, least, most)
			}
		})
	}
}

// TestServerFloodSettings checks that the settings of the limit of server-side events reach the
// data plane, and that the owner sees the ignored ones with advice.
func TestServerFloodSettings(t *testing.T) {
	t.Parallel()

	const sent = 20
	for burst, least := range map[string]int{"2": 2, "0": sent} {
		t.Run("burst "+burst, func(t *testing.T) {
			t.Parallel()

			settings := settingsFor(t, "sqlite:")
			settings["TALLYGATE_SERVER_FLOOD_BURST"], settings["TALLYGATE_SERVER_FLOOD_RATE"] = burst, "1"
			p := start(t, settings, []string{"control", "data"})
			o := newOwner(t, p)
			site := o.signUp("crash.localhost")

			secret := o.RotateServerSecret(site.ID)
			o.RegisterEvent(site.ID, "signup")

			before, recorded := time.Now(), 0
			for i := range sent {
				status, answer := callServer(t, p.addr["data"], secret, "signup", fmt.Sprint("203.0.113.", i))
				switch {
				case status != http.StatusOK:
					t.Fatalf("event %d: %d %s", i, status, answer)
				case strings.Contains(answer, `"recorded"`):
					recorded++
				case answer != `{"status":"ignored","reason":"server_flood"}`:
					t.Errorf("event %d: %s", i, answer)
				}
			}

			// On a slow machine the bucket has time to refill.
			most := min(sent, least+int(time.Since(before)/time.Second)+1)
			if got := o.used(site.ID); got != recorded || got < least || got > most {
				t.Errorf("%d events are recorded and %d counted, want %d to %d", recorded, got, least, most)
			}

			awaitRejections(o, site.ID, sent-recorded)
		})
	}
}

// awaitRejections waits until the site shows so many server-side events over the limit, which the
// process counts in batches. Its notice counts them too.
func awaitRejections(o *testOwner, siteID string, want int) {
	o.t.Helper()
	testkit.AwaitState(o.t, fmt.Sprint(want, " calls over the limit"), func() (string, bool) {
		var found struct {
			Site struct {
				Notice     *string
				Rejections []struct {
					Endpoint, Code, Advice string
					Count                  int
					Ignored                bool
				}
			}
		}
		o.do(`{ site(id: "`+siteID+`") { notice rejections { endpoint code advice count ignored } } }`, &found)

		count := 0
		for _, r := range found.Site.Rejections {
			if r.Endpoint != "server" || r.Code != "server_flood" || r.Ignored || !strings.Contains(r.Advice, "TALLYGATE_SERVER_FLOOD_BURST") {
				o.t.Errorf("%+v", r)
			}
			count += r.Count
		}
		return fmt.Sprintf("%+v", found), count == want && (found.Site.Notice != nil) == (want > 0)
	})
}

// TestTestSitekeySetting checks that the captcha's test sitekey works unless it is turned off.
func TestTestSitekeySetting(t *testing.T) {
	t.Parallel()

	for value, want := range map[string]int{"": http.StatusOK, "true": http.StatusOK, "false": http.StatusNotFound} {
		t.Run("setting "+value, func(t *testing.T) {
			t.Parallel()

			settings := settingsFor(t, "sqlite:")

			if value != "" {
				settings["TALLYGATE_CAPTCHA_TEST_SITEKEY"] = value
			}

			p := start(t, settings, []string{"control", "data"})
			response, _ := exchange(t, http.DefaultClient, http.MethodPost, "http://"+p.addr["data"]+"/api/v1/pow/config",
				`{"sitekey":"`+model.TestSitekey+`"}`, map[string]string{"Content-Type": "application/json"})
			testkit.Equal(t, response.StatusCode, want, "config: %s", response.Status)
		})
	}
}
