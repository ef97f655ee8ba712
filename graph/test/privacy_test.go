package graph_test

import (
	"strings"
	"testing"

	"github.com/tallygate/tallygate/db"
	"github.com/tallygate/tallygate/tools/dbtest"
)

// TestPrivacyText changes the settings of a site one after another. Its privacy text follows each
// of them, and names hosts of webhooks without the path.
func TestPrivacyText(t *testing.T) {
	dbtest.Parallel(t, func(t *testing.T, d *db.DB) {
		a := newApp(t, d, func(s *settings) {
			s.graph.Configuration.RetentionMonths, s.graph.Configuration.ReportMonths = 14, 36
		})
		c := a.owner("owner@example.com")
		id := c.siteOf("example.com")
		read := func(arguments string) string {
			t.Helper()
			got := c.site(id, `privacyText`+arguments+``).ok(t, "")
			return got.at("site.privacyText").(string)
		}

		text := read("")
		if text != read("(language: EN)") || !strings.HasPrefix(text, "## Measuring visits to example.com\n") ||
			!strings.Contains(text, "the 14 months before") || !strings.Contains(text, "the 36 months before") ||
			!strings.Contains(text, "from the server stats.example.net.") {
			t.Errorf("the text of a new site:\n%s", text)
		}
		if german := read("(language: DE)"); !strings.HasPrefix(german, "## Messung der Besuche von example.com\n") {
			t.Errorf("in German:\n%s", german)
		}

		for _, step := range []struct{ mutation, input, shows string }{
			{"updateSite", `visitDetails: [COUNTRY]`, "the country, without region or city"},
			{"updateSite", `visitDetails: [BROWSER]`, "such as Firefox"},
			{"updateSite", `excludedCountries: ["AQ"]`, "(AQ), without storing the country"},
			{"updateSite", `excludedPaths: ["/secret/**"]`, "from some of our pages"},
			{"updateSite", `excludedAddresses: ["192.0.2.7"]`, "networks that we exclude"},
			{"updateSite", `shields: [DATA_CENTRES]`, "data centres"},
			{"updateSite", `smallGroup: 17`, "fewer than 17 visitors"},
			{"updateSite", `measureSiteSearch: true`, "with the search term"},
			{"updateSite", `measureEcommerce: true`, "refunds"},
			{"updateSite", `allowPseudonymousUserId: true`, "a pseudonymous user id"},
			{"addSiteDomain", `domain: "xn--mller-kva.example"`, "pages on müller.example."},
			{"registerEvent", `name: "sign_up"`, ": `sign_up`."},
			{"setConversionWebhook", `url: "https://hooks.example.net:8443/key?token=1"`, "server hooks.example.net, the analytics"},
			{"markKeyEvent", `name: "sign_up"`, "`purchase`, `sign_up`"},
			{"setDailyExportWebhook", `url: "https://export.example.net/key"`, "server export.example.net, the analytics"},
			{"rotateServerSecret", ``, "Our own server can report"},
		} {
			before := read("")
			c.query(`mutation($id: ID!) { `+step.mutation+`(input: {siteId: $id `+step.input+`}) { userErrors { code } } }`,
				"id", id).ok(t, step.mutation)

			after := read("")
			if strings.Contains(before, step.shows) || !strings.Contains(after, step.shows) {
				t.Errorf("%s %s: the text has no new %q:\n%s", step.mutation, step.input, step.shows, after)
			}
			for _, hidden := range []string{"secret/", "token=", "/key", "192.0.2.7"} {
				if strings.Contains(after, hidden) {
					t.Errorf("%s %s: the text has %q", step.mutation, step.input, hidden)
				}
			}
		}

		other := a.owner("other@example.com")
		got := other.site(id, `privacyText`)
		got.named("another account reads").has(t, "site", nil).hides(t, "example.com")
		got = c.site(id, `privacyText(language: FR)`)
		got.named("an unknown language").code(t, "VALIDATION_FAILED")
	})
}
