package captcha

import (
	"net/http"
	"strings"

	"github.com/tallygate/tallygate/dataplane/bot"
)

// headless is what Chromium and its relatives call themselves without a window, in the user agent
// and in the client hint Sec-CH-UA, unless the program that drives them changes it.
const headless = "Headless"

// isAutomated reports whether the browser says that it is automated: by its user agent, by a client
// hint, or by navigator.webdriver, which the widget sends. In strict mode missing headers count as
// well, which some privacy browsers leave out.
//
// Nothing that a client says makes its work easier. So a program that hides what it is gains the
// work of a browser, and no more.
func isAutomated(h http.Header, webdriver, isStrict bool) bool {
	agent := h.Get("User-Agent")
	switch {
	case webdriver, strings.Contains(agent, headless):
		return true
	case agent != "" && bot.Is(agent) && !bot.IsSearchEngine(agent):
		return true
	}

	for _, hint := range h["Sec-Ch-Ua"] {
		if strings.Contains(hint, headless) {
			return true
		}
	}

	return isStrict && (agent == "" || h.Get("Accept-Language") == "")
}
