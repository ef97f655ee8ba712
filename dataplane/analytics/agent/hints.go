package agent

import (
	"net/http"
	"strings"

	"github.com/tallygate/tallygate/db/model"
)

// hint is a client hint that is true, false or missing.
type hint uint8

const (
	missing hint = iota
	no
	yes
)

// hints are the client hints of low entropy, which Chromium's browsers send unasked over HTTPS.
type hints struct {
	brands   string // Sec-CH-UA
	platform string // Sec-CH-UA-Platform, with its quotes
	mobile   hint   // Sec-CH-UA-Mobile
}

// hintsOf returns the hints of a header. The keys are in the form of net/http, so that no key is
// converted.
func hintsOf(header http.Header) (h hints) {
	h.brands = first(header["Sec-Ch-Ua"])
	h.platform = first(header["Sec-Ch-Ua-Platform"])

	switch first(header["Sec-Ch-Ua-Mobile"]) {
	case "?0":
		h.mobile = no
	case "?1":
		h.mobile = yes
	}
	return h
}

// first returns the first value of a header field; "" without any, or if it is longer than a hint.
func first(values []string) string {
	if len(values) == 0 || len(values[0]) > maxLength {
		return ""
	}
	return values[0]
}

// system returns the system of the platform hint. It wins over the agent's, which users and tools
// change more often, unless the agent names a system that Chromium reports as the Linux or Android
// below it.
func (h hints) system(agent model.System) model.System {
	switch h.platform {
	case `"Windows"`:
		return model.Windows
	case `"macOS"`:
		return model.MacOS
	case `"Chrome OS"`, `"Chromium OS"`:
		return model.ChromeOS
	case `"iOS"`:
		return model.IOS

	case `"Android"`, `"Linux"`:
		switch agent {
		case model.ChromeOS, model.HarmonyOS, model.KaiOS, model.Tizen, model.WebOS:
			return agent
		}

		if h.platform == `"Android"` {
			return model.Android
		}
		return model.Linux
	}

	return agent
}

// browser returns the browser by the brands, else by the words of the agent. A brand of its own
// wins over the agent. Google Chrome and Chromium only complete an agent that names no browser:
// several browsers, such as Vivaldi, send them to look like Chrome.
func (h hints) browser(w words, system model.System) model.Browser {
	brand := h.brand()
	if brand != "" && brand != model.Chrome && brand != model.InApp {
		return brand
	}

	browser := w.browser(system)
	switch {
	case brand == model.InApp && (browser == model.Chrome || browser == model.Edge || browser == model.OtherBrowser):
		return model.InApp
	case brand == model.Chrome && browser == model.OtherBrowser:
		return model.Chrome
	}
	return browser
}

// brand returns the most specific browser that the brands name; "" if none. An app's view names
// itself in addition to the browser that uses it.
func (h hints) brand() (found model.Browser) {
	for rest := h.brands; ; {
		var name string
		var ok bool
		if _, rest, ok = strings.Cut(rest, `"`); !ok {
			return found
		}
		if name, rest, ok = strings.Cut(rest, `"`); !ok {
			return found
		}

		browser := browserOfBrand(name)
		if browser != "" && specificity(browser) > specificity(found) {
			found = browser
		}
	}
}

// browserOfBrand returns the browser with a brand name; "" for an unknown name or for a version,
// which are quoted as well.
func browserOfBrand(name string) model.Browser { return hintBrands[name] }

// hintBrands are the browsers by their brand names in client hints.
var hintBrands = map[string]model.Browser{
	"Google Chrome":           model.Chrome,
	"Chromium":                model.Chrome,
	"Microsoft Edge":          model.Edge,
	"Opera":                   model.Opera,
	"Opera GX":                model.Opera,
	"Opera Air":               model.Opera,
	"Opera Mini":              model.Opera,
	"OperaMobile":             model.Opera,
	"Brave":                   model.Brave,
	"Vivaldi":                 model.Vivaldi,
	"Samsung Internet":        model.SamsungInternet,
	"YaBrowser":               model.YandexBrowser,
	"Yandex":                  model.YandexBrowser,
	"Whale":                   model.Whale,
	"DuckDuckGo":              model.DuckDuckGo,
	"HuaweiBrowser":           model.HuaweiBrowser,
	"Amazon Silk":             model.Silk,
	"Android WebView":         model.InApp,
	"Microsoft Edge WebView2": model.InApp,
}

// specificity orders browsers that are named together.
func specificity(browser model.Browser) int {
	switch browser {
	case "":
		return 0
	case model.Chrome:
		return 1
	case model.Edge:
		return 2 // DuckDuckGo for Windows
	case model.InApp:
		return 3 // a view of Edge
	}
	return 4
}
