package console_test

import (
	"net/http"
	"testing"

	"github.com/tallygate/tallygate/tools/browsertest"
	"github.com/tallygate/tallygate/tools/testkit"
)

// TestInstallIgnoredChromium opens the installation check while the calls that it waits for are
// ignored: first calls of a headless browser, then calls of an excluded address.
func TestInstallIgnoredChromium(t *testing.T) {
	t.Parallel()

	s := start(t, nil)
	s.signUp()
	id, key := s.createSite("shop.localhost", "Kettle shop")
	other, otherKey := s.createSite("other.localhost", "Another shop")
	p := s.openSignedIn("/sites/" + id + "/install")
	p.see("Waiting for a hit")

	const headless = "Mozilla/5.0 (X11; Linux x86_64) AppleWebKit/537.36 (KHTML, like Gecko) HeadlessChrome/140.0.0.0 Safari/537.36"
	hit := func(agent string) {
		t.Helper()
		testkit.Require(t, s.hitFrom(agent, key, "http://shop.localhost", "/", ""), http.StatusNoContent, "a hit: status")
	}

	hit(headless)
	p.see("Calls are arriving but are ignored on purpose:")
	p.see("Sent by a browser that names itself a bot")
	p.look("install-ignored")

	s.UpdateSite(id, map[string]any{"excludedAddresses": []string{"127.0.0.0/8"}})

	// Changes reach the data plane in their order, soon after the answer.
	s.RegisterEvent(other, "seen")
	testkit.Await(t, "the data plane knows the new event", func() bool {
		return s.hitFrom(browsertest.UserAgent, otherKey, "http://other.localhost", "/", "seen") == http.StatusNoContent
	})
	hit(browsertest.UserAgent)
	p.see("Your network is among the excluded addresses.")
	p.WaitFor(`document.querySelectorAll('a[href$="/exclusions"]').length === 2`) // in the list of pages, and as the advice
	p.see("Waiting for a hit")

	// An earlier count is not shown again after a reload.
	p.reload()
	p.see("Waiting for a hit")
	p.WaitFor("!document.body.innerText.includes('ignored on purpose')")
	p.clean(s)
}

// TestInstallOtherProductChromium reads what the forms of programs for other products ask for.
func TestInstallOtherProductChromium(t *testing.T) {
	t.Parallel()

	s := start(t, nil)
	s.signUp()
	id, key := s.createSite("kettle.example", "Kettle shop")
	p := s.openSignedIn("/sites/" + id + "/install")
	p.press("Other product")

	folder := s.data + "/" + key
	for _, product := range []struct {
		name, fields string
		tag          string // a part of it
	}{
		{"Umami", s.data + "/script.js, " + s.data + ", " + key, `src="` + s.data + `/script.js" data-website-id="` + key + `"`},
		{"Plausible", folder + "/js/script.js, " + folder + ", kettle.example", `data-domain="kettle.example" src="` + folder + `/js/script.js"`},
		{"GoatCounter", folder + "/count.js, " + folder + "/count", `data-goatcounter="` + folder + `/count"`},
		{"Matomo", folder + "/matomo.js, " + folder + ", 1", `['setTrackerUrl', "` + folder + `/matomo.php"]`},
	} {
		p.press(product.name)
		p.see(product.tag)
		if got := p.Text("[...document.querySelectorAll('dl.facts code')].map(e => e.textContent).join(', ')"); got != product.fields {
			t.Errorf("%s: fields %s, want %s", product.name, got, product.fields)
		}
	}
	p.look("install-other-product")
	p.clean(s)
}

// TestNewSiteChromium types domains that need a word before the site is created.
func TestNewSiteChromium(t *testing.T) {
	t.Parallel()

	s := start(t, nil)
	s.signUp()
	s.createSite("kettle.example", "Kettle shop")
	p := s.openSignedIn("/sites/new")

	p.fill("Domain", "http://localhost:3000/")
	p.see("open your page as shop.localhost")
	p.fill("Domain", "blog.kettle.example")
	p.see("blog.kettle.example belongs to kettle.example already")
	p.fill("Domain", "other.example")
	p.WaitFor("!document.querySelector('.notice')")
	p.fill("Domain", "https://www.teapot.example/start")
	p.see("The site becomes teapot.example.")
	p.look("site-new-www")
	p.press("Create the site")
	p.see("Waiting for a hit")
	p.clean(s)
}
