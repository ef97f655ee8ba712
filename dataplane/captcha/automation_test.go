package captcha

import (
	"net/http"
	"os"
	"strings"
	"testing"

	"github.com/tallygate/tallygate/tools/testkit"
)

// TestNoBrowserIsAutomation: no user agent of a real browser counts as automation. The list has the
// samples of package bot, and browsers by name that screen readers, apps and people who hide use.
func TestNoBrowserIsAutomation(t *testing.T) {
	agents := []string{
		// Screen readers use the browser that they read; these are usual ones with NVDA, JAWS,
		// VoiceOver and TalkBack.
		"Mozilla/5.0 (Windows NT 10.0; Win64; x64; rv:145.0) Gecko/20100101 Firefox/145.0",
		"Mozilla/5.0 (Windows NT 10.0; Win64; x64) AppleWebKit/537.36 (KHTML, like Gecko) Chrome/145.0.0.0 Safari/537.36 Edg/145.0.0.0",
		"Mozilla/5.0 (Macintosh; Intel Mac OS X 10_15_7) AppleWebKit/605.1.15 (KHTML, like Gecko) Version/26.1 Safari/605.1.15",
		"Mozilla/5.0 (Linux; Android 10; K) AppleWebKit/537.36 (KHTML, like Gecko) Chrome/145.0.0.0 Mobile Safari/537.36",
		// Tor Browser, Mullvad Browser and LibreWolf say what Firefox says; Brave what Chrome says.
		"Mozilla/5.0 (X11; Linux x86_64; rv:140.0) Gecko/20100101 Firefox/140.0",
		"Lynx/2.9.2 libwww-FM/2.14 SSL-MM/1.4.1 OpenSSL/3.4.1",
		// In-app browsers.
		"Mozilla/5.0 (iPhone; CPU iPhone OS 18_7 like Mac OS X) AppleWebKit/605.1.15 (KHTML, like Gecko) Mobile/15E148 Instagram 405.0.0.30.70 (iPhone16,2; iOS 18_7; en_US; en; scale=3.00; 1290x2796; IABMV/1)",
		"Mozilla/5.0 (Linux; Android 15; SM-S928B Build/AP3A.240905.015; wv) AppleWebKit/537.36 (KHTML, like Gecko) Version/4.0 Chrome/142.0.0.0 Mobile Safari/537.36 [FB_IAB/FB4A;FBAV/530.0.0.46.76;]",
		// A phone with the name of a library.
		"Mozilla/5.0 (Linux; Android 14; 22101316G Build/UP1A.231005.007; wv) AppleWebKit/537.36 (KHTML, like Gecko) Version/4.0 Chrome/121.0.0.0 Mobile Safari/537.36 Instagram 333.0.0.42.91 Android (34/14; 440dpi; 1080x2176; Xiaomi/Redmi; 22101316G; ruby; mt6877; en_US; 587; --)",
	}
	for _, file := range []string{"browsers.txt", "current.txt"} {
		text, err := os.ReadFile("../bot/testdata/" + file)
		testkit.NoError(t, err)
		for line := range strings.Lines(string(text)) {
			if line = strings.TrimSpace(line); line != "" && !strings.HasPrefix(line, "#") {
				agents = append(agents, line)
			}
		}
	}

	// These samples of programs that are not today's browsers have no parentheses.
	odd := map[string]bool{
		"ExampleApp/1 Windows Phone/10.0 Microsoft; Lumia 550": true, "Amiga-AWeb/3.4.167SE": true,
		"hulu/50000130 cfnetwork/976 darwin/18.2.0": true,
	}
	if len(agents) < 290 {
		t.Errorf("only %d user agents", len(agents))
	}
	for _, agent := range agents {
		if !odd[agent] && isAutomated(http.Header{"User-Agent": {agent}}, false, false) {
			t.Errorf("counts as automation: %s", agent)
		}
	}
}

// TestAutomationByAgent: programs that say what they are count, and search engines do not.
func TestAutomationByAgent(t *testing.T) {
	for agent, want := range map[string]bool{
		"Mozilla/5.0 (X11; Linux x86_64) AppleWebKit/537.36 (KHTML, like Gecko) HeadlessChrome/145.0.0.0 Safari/537.36": true,
		"Mozilla/5.0 (X11; Linux x86_64) AppleWebKit/537.36 (KHTML, like Gecko) HeadlessEdg/145.0.0.0 Safari/537.36":    true,
		"Mozilla/5.0 (Unknown; Linux x86_64) AppleWebKit/538.1 (KHTML, like Gecko) PhantomJS/2.1.1 Safari/538.1":        true,
		"curl/8.14.1":            true,
		"python-requests/2.32.5": true,
		"Go-http-client/2.0":     true,
		"node":                   true,
		"axios/1.13.2":           true,
		"Mozilla/5.0 (compatible; GPTBot/1.2; +https://openai.com/gptbot)":                                                                                 true,
		"Mozilla/5.0 (compatible; AhrefsBot/7.0; +http://ahrefs.com/robot/)":                                                                               true,
		"Mozilla/5.0 AppleWebKit/537.36 (KHTML, like Gecko; compatible; Googlebot/2.1; +http://www.google.com/bot.html) Chrome/145.0.0.0 Safari/537.36":    false,
		"Mozilla/5.0 AppleWebKit/537.36 (KHTML, like Gecko; compatible; bingbot/2.0; +http://www.bing.com/bingbot.htm) Chrome/116.0.1938.76 Safari/537.36": false,
		"Mozilla/5.0 (compatible; YandexBot/3.0; +http://yandex.com/bots)":                                                                                 false,
		"DuckDuckBot/1.1; (+http://duckduckgo.com/duckduckbot.html)":                                                                                       false,
		"": false,
	} {
		testkit.Equal(t, isAutomated(http.Header{"User-Agent": {agent}}, false, false), want, "%q counts as automation", agent)
	}
}
