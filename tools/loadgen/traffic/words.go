package traffic

import "fmt"

// The values that browsers send. The lists are short to keep the load cheap. A visitor's number
// selects the visitor's values.

// Agents are user agents of browsers.
var Agents = []string{
	"Mozilla/5.0 (Windows NT 10.0; Win64; x64) AppleWebKit/537.36 (KHTML, like Gecko) Chrome/142.0.0.0 Safari/537.36",
	"Mozilla/5.0 (iPhone; CPU iPhone OS 18_6 like Mac OS X) AppleWebKit/605.1.15 (KHTML, like Gecko) Version/18.6 Mobile/15E148 Safari/604.1",
	"Mozilla/5.0 (Linux; Android 10; K) AppleWebKit/537.36 (KHTML, like Gecko) Chrome/142.0.0.0 Mobile Safari/537.36",
	"Mozilla/5.0 (Macintosh; Intel Mac OS X 10_15_7) AppleWebKit/605.1.15 (KHTML, like Gecko) Version/18.6 Safari/605.1.15",
	"Mozilla/5.0 (X11; Linux x86_64; rv:145.0) Gecko/20100101 Firefox/145.0",
	"Mozilla/5.0 (Windows NT 10.0; Win64; x64; rv:145.0) Gecko/20100101 Firefox/145.0",
	"Mozilla/5.0 (Windows NT 10.0; Win64; x64) AppleWebKit/537.36 (KHTML, like Gecko) Chrome/142.0.0.0 Safari/537.36 Edg/142.0.0.0",
}

var bots = []string{
	"Mozilla/5.0 (compatible; Googlebot/2.1; +http://www.google.com/bot.html)",
	"Mozilla/5.0 (compatible; bingbot/2.0; +http://www.bing.com/bingbot.htm)",
	"curl/8.5.0",
	"Mozilla/5.0 (X11; Linux x86_64) AppleWebKit/537.36 (KHTML, like Gecko) HeadlessChrome/142.0.0.0 Safari/537.36",
}

// referrers are values of r. Most are null, as for page views within a site.
var referrers = []string{
	`null`, `null`, `null`, `null`, `null`, `null`, `"https://www.google.com/"`, `"https://duckduckgo.com/"`,
	`"https://t.co/abc"`,
	`"https://news.example.org/2026/11/a-story"`, `null`, `null`, `null`, `null`, `null`, `null`,
}

// campaigns are values of u. One page view of eight has a campaign.
var campaigns = []string{
	`{}`, `{}`, `{}`, `{}`, `{}`, `{}`, `{}`, `{}`, `{}`, `{}`, `{}`, `{}`, `{}`, `{}`,
	`{"source":"newsletter","medium":"email","campaign":"autumn"}`,
	`{"gclid":"Cj0KCQiAoZDJBhC0ARIsAERP"}`,
}

var (
	widths    = []int{1920, 390, 412, 1440, 2560, 1366, 768}
	languages = []string{"de-DE", "en-US", "fr-FR", "nl-NL", "es-ES"}
)

// PagePaths are the paths of a site's pages.
var PagePaths = func() []string {
	all := make([]string, paths)
	for i := range all {
		all[i] = fmt.Sprintf("/products/department-%d/article-%d", i%12, i)
	}
	all[0] = "/"
	return all
}()
