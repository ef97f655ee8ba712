package bot

import "strings"

// searchEngines are parts of the user agents of crawlers that render pages for a search engine, or
// show an owner how it sees a page.
var searchEngines = []string{
	"Googlebot", "Google-InspectionTool", "GoogleOther", "Storebot-Google", "bingbot", "BingPreview", "adidxbot", "DuckDuckBot",
	"YandexBot", "YandexRenderResourcesBot", "Baiduspider", "Applebot", "Slurp", "Qwantify", "Qwantbot", "SeznamBot", "PetalBot",
	"Sogou", "Yeti/", "MojeekBot", "Exabot", "coccocbot", "kagibot", "Kagibot",
}

// IsSearchEngine reports whether a bot's user agent belongs to a search engine. The captcha treats
// it like a browser, because it sends no form.
func IsSearchEngine(userAgent string) bool {
	for _, part := range searchEngines {
		if strings.Contains(userAgent, part) {
			return true
		}
	}
	return false
}
