// Package agent reads the coarse values of model.Client from a user agent and from client hints:
// the family of the browser, the operating system and the class of the device. It never stores,
// caches or logs an agent. The tests compare it with testdata/agents.tsv.
package agent

import (
	"net/http"

	"github.com/tallygate/tallygate/db/model"
)

// maxLength is the longest user agent that is read, in bytes; package bot takes longer ones for
// bots.
const maxLength = 2048

// Of returns the browser, the system and the device of a request, by its user agent and by the
// client hints among its header. A header of nil has none; never pass the header of another client
// than the browser. All values are empty for an absurd agent, and the device is empty where nothing
// names it. Of is safe for concurrent use.
//
// The agent counts by whole words. A word after "like" does not count: a browser that says "like
// Firefox" is another one. A browser that model does not list counts as the listed browser that its
// agent names, and as OtherBrowser without one.
func Of(userAgent string, header http.Header) (model.Browser, model.System, model.Device) {
	w, ok := wordsOf(userAgent)
	if !ok {
		return "", "", ""
	}

	h := hintsOf(header)
	system := h.system(w.system())
	return h.browser(w, system), system, w.device(system, h.mobile)
}

// system returns the operating system that the words name. Names of one system that contain the
// name of another one come first: phones with Windows say Android, and televisions say Linux.
func (w words) system() model.System {
	switch {
	case w.has(windows):
		return model.Windows
	case w.has(harmony):
		return model.HarmonyOS
	case w.has(kai):
		return model.KaiOS
	case w.has(tizen):
		return model.Tizen
	case w.has(webOS):
		return model.WebOS
	case w.has(crOS):
		return model.ChromeOS

	// An iPad that shows a page within an app sends the agent of a Mac, with the word Mobile.
	case w.has(iPhone | iPad), w.has(mac) && w.has(mobile):
		return model.IOS

	case w.has(mac):
		return model.MacOS
	case w.has(android):
		return model.Android
	case w.has(linux):
		return model.Linux
	}
	return model.OtherSystem
}

// brands are the browsers with words of their own, the most specific first. Most of them name
// Chrome or Safari as well, and DuckDuckGo for Windows also Edge.
var brands = []struct {
	word    words
	browser model.Browser
}{
	// An app comes first, because its engine may name a browser, as WeChat's names QQ Browser.
	{app, model.InApp},

	{duckDuckGo, model.DuckDuckGo},
	{brave, model.Brave},
	{vivaldi, model.Vivaldi},
	{yandex, model.YandexBrowser},
	{whale, model.Whale},
	{opera, model.Opera},
	{samsung, model.SamsungInternet},
	{uc, model.UCBrowser},
	{huawei, model.HuaweiBrowser},
	{mi, model.MiBrowser},
	{qq, model.QQBrowser},
	{silk, model.Silk},
	{edge, model.Edge},
	{explorer, model.Explorer},
	{firefox, model.Firefox},
	{electron, model.InApp},
}

// anyBrand are the words of all brands.
var anyBrand = func() (all words) {
	for _, b := range brands {
		all |= b.word
	}
	return all
}()

// browser returns the browser that the words name on a system.
func (w words) browser(system model.System) model.Browser {
	if w.has(anyBrand) {
		for _, b := range brands {
			if w.has(b.word) {
				return b.browser
			}
		}
	}

	switch {
	case w.isWebView(system):
		return model.InApp
	case w.has(chrome):
		return model.Chrome
	case !w.has(safari):
		return model.OtherBrowser
	case system == model.Android:
		return model.AndroidBrowser
	case system == model.IOS, system == model.MacOS, system == model.Windows:
		return model.Safari
	}

	// Safari exists on no other system: this is another browser with WebKit.
	return model.OtherBrowser
}

// isWebView reports whether an app shows the page. Android's view for apps says wv, or Version
// before Chrome, as do a few browsers of vendors, which have names with "Browser". The view of iOS
// leaves out Safari; a view of Huawei's systems names its engine only.
func (w words) isWebView(system model.System) bool {
	switch system {
	case model.Android:
		return w.has(webView) || w.has(version) && w.has(chrome) && !w.has(otherBrowser)
	case model.IOS:
		return !w.has(safari | chrome)
	case model.HarmonyOS:
		return w.has(arkWeb)
	}
	return false
}

// device returns the class of the device that the words name, on a system; mobileHint is the client
// hint.
func (w words) device(system model.System, mobileHint hint) model.Device {
	isMobile := w.has(mobile) && mobileHint != no || mobileHint == yes

	switch system {
	case model.Windows:
		switch {
		case w.has(console):
			return model.TV
		case w.has(mobile | phone):
			return model.Phone
		}
		return model.Desktop

	case model.MacOS, model.ChromeOS:
		return model.Desktop

	case model.IOS:
		if w.has(iPad | mac) {
			return model.Tablet
		}
		return model.Phone

	case model.KaiOS:
		return model.Phone
	}

	switch {
	case w.has(tv | console):
		return model.TV
	case w.has(tablet):
		return model.Tablet
	case isMobile, w.has(phone):
		return model.Phone
	case system == model.Android:
		return model.Tablet
	case system == model.Tizen, system == model.WebOS:
		return model.TV
	case system == model.Linux, w.has(x11 | pc):
		return model.Desktop
	case system == model.HarmonyOS:
		return model.Tablet
	}
	return ""
}
