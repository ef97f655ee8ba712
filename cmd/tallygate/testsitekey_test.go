package main

import (
	"net/http"
	"strings"
	"testing"

	"github.com/tallygate/tallygate/db/model"
)

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
