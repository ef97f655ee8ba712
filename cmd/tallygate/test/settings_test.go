package test

import (
	"fmt"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/tallygate/tallygate/db/model"
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
			response, err := http.Post("http://"+p.addr["data"]+"/api/v1/pow/config", "application/json",
				strings.NewReader(`{"sitekey":"`+model.TestSitekey+`"}`))
			if err != nil {
				t.Fatal(err)
			}

			response.Body.Close()

			if response.StatusCode != want {
				t.Errorf("config: %s, want %d", response.Status, want)
			}
		})
	}
}
