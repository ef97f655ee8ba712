package faces_test

import (
	"strings"
	"testing"
)

// fragment fills the settings of a program into what it puts on its pages.
func fragment(text string) string {
	return strings.NewReplacer("ORIGIN", dataOrigin, "FOLDER", keyFolder, "HOST", strings.TrimPrefix(dataOrigin, "http://"),
		"SITE", siteKey, "UUID", uuid, "OLD", oldID).Replace(text)
}

// TestFragmentsChromium checks what programs and themes put on their pages, each with its settings
// as people type them.
func TestFragmentsChromium(t *testing.T) {
	s := newShop(t)
	s.run(t, "/api/send", umamiFragments())
	s.run(t, "/"+siteKey+"/api/event", plausibleFragments())
	s.run(t, "/"+siteKey+"/matomo.php", matomoFragments())
}

// nextPage is what a router does: a new address, for Quartz and Astro also an event.
const nextPage = `history.pushState({}, "", "/next?secret=1#secret"), document.title = "Secret", document.dispatchEvent(new CustomEvent("nav"))`

func umamiFragments() []row {
	kuma := fragment(`<script defer src="ORIGIN/script.js" data-website-id="UUID"></script>`)
	docusaurus := fragment(`<link rel="preconnect" href="ORIGIN"><script async defer src="ORIGIN/script.js" data-website-id="SITE"
		data-auto-track="true" data-do-not-track="true" data-cache="true" data-domains="www.shop.test"></script>`)
	quartz := fragment(`<script type="module">
		const script = document.createElement("script");
		script.src = "ORIGIN/script.js";
		script.setAttribute("data-website-id", "UUID");
		script.setAttribute("data-auto-track", "true");
		script.defer = true;
		document.head.appendChild(script);
	</script>`)
	astro := fragment(`<meta name="astro-view-transitions-enabled" content="true"><script type="module">(function () {
		const script = document.createElement("script");
		script.setAttribute("src", "ORIGIN/script.js");
		script.setAttribute("defer", true);
		script.setAttribute("data-website-id", "SITE");
		script.setAttribute("data-astro-rerun", true);
		document.querySelector("head").appendChild(script);
	})()</script>`)

	return []row{
		{name: "Uptime Kuma, Umami", page: kuma, want: []string{viewOfPage}},
		{
			name: "Chirpy, Umami", path: "/" + siteKey + "/api/send", want: []string{viewOfPage},
			page: fragment(`<!-- Umami --><script defer src="FOLDER/script.js" data-website-id="OLD"></script>`),
		},
		{name: "Docusaurus", page: docusaurus, do: nextPage, want: []string{viewOfPage, "view /next"}},
		{name: "Quartz, Umami", page: quartz, do: nextPage, want: []string{viewOfPage, "view /next"}},
		{
			// After a change of the route, Astro puts a copy of the element in its place.
			name: "Astro", page: astro, want: []string{viewOfPage, "view /next", "event /next signup"},
			do: nextPage + `, new Promise((done) => {
				const old = document.querySelector("[data-astro-rerun]"), copy = document.createElement("script");
				for (const { name, value } of old.attributes) copy.setAttribute(name, value);
				copy.onload = done;
				old.replaceWith(copy);
			}).then(() => umami.track("signup"))`,
		},
	}
}

func plausibleFragments() []row {
	queue := `<script>window.plausible = window.plausible || function() { (window.plausible.q = window.plausible.q || []).push(arguments) }</script>`
	quartz := fragment(`<script type="module">
		const script = document.createElement("script");
		script.src = "FOLDER/js/script.manual.js";
		script.setAttribute("data-domain", location.hostname);
		script.defer = true;
		script.onload = () => {
			window.plausible = window.plausible || function () { (window.plausible.q = window.plausible.q || []).push(arguments) };
			plausible("pageview");
			document.addEventListener("nav", () => plausible("pageview"));
		};
		document.head.appendChild(script);
	</script>`)
	wordpress := fragment(`<script defer data-domain='shop.test' data-api='FOLDER/api/event' data-cfasync='false'
		src='FOLDER/js/plausible.outbound-links.file-downloads.tagged-events.pageview-props.js?ver=2.0.3' id="plausible-analytics-js"
		event-author='Secret' event-category='Secret'></script>`)
	wordpressInit := fragment(`<script id="plausible-analytics-js-after">
		window.plausible=window.plausible||function(){(window.plausible.q=window.plausible.q||[]).push(arguments)},
		window.plausible.init=function(i){window.plausible.o=i||{}};
		var script=document.createElement("script");script.type="text/javascript",script.defer=!0,script.src="ORIGIN/js/pa-SITE.js";
		var r=document.getElementsByTagName("script")[0];r.parentNode.insertBefore(script,r);
		plausible.init({"customProperties":{"user_logged_in":"no"}});</script>`)
	plugin := `<script>document.addEventListener('DOMContentLoaded', () => {
		plausible( 404, {"props":{"path":document.location.pathname}} );
		plausible( 'WP Search Queries', {"props":{"search_query":"shoes","result_count":3}} ); });</script>`

	return []row{
		{
			name: "Uptime Kuma, Plausible", path: "/api/event", want: []string{viewOfPage},
			page: fragment(`<script defer src="ORIGIN/js/script.js" data-domain="SITE"></script>`),
		},
		{
			name: "Uptime Kuma, Plausible with the key in the address", want: []string{viewOfPage},
			page: fragment(`<script defer src="FOLDER/js/plausible.js" data-domain="shop.test"></script>`),
		},
		{name: "Quartz, Plausible", page: quartz, do: nextPage, want: []string{"view /page manual", "view /next manual"}},
		{
			// The plug-in reports each route in addition.
			name: "Gatsby", page: queue + fragment(`<script async defer data-domain="shop.test" src="FOLDER/js/index.js"></script>`),
			do: nextPage + `, plausible("pageview")`, want: []string{viewOfPage, "view /next"},
		},
		{
			name: "WordPress", page: wordpress + queue + plugin,
			want: []string{viewOfPage, `event /page 404 {"path":"/page"}`, "status 400 wp_search_queries"},
		},
		{
			name: "WordPress, init", path: "/api/event", page: wordpressInit + plugin,
			want: []string{viewOfPage, `event /page 404 {"user_logged_in":"no","path":"/page"}`, "status 400 wp_search_queries"},
		},
	}
}

func matomoFragments() []row {
	snippet := func(declaration, before string) string {
		return fragment(`<script type="text/javascript">
			` + declaration + ` _paq = window._paq = window._paq || [];
			` + before + `
			_paq.push(['trackPageView']);
			_paq.push(['enableLinkTracking']);
			(function() {
				var u="//HOST/SITE/";
				_paq.push(['setTrackerUrl', u+'matomo.php']);
				_paq.push(['setSiteId', 1]);
				var d=document, g=d.createElement('script'), s=d.getElementsByTagName('script')[0];
				g.type='text/javascript'; g.async=true; g.src=u+'matomo.js'; s.parentNode.insertBefore(g,s);
			})();
		</script>`)
	}
	quartz := snippet("let", `document.addEventListener("nav", () => {
		_paq.push(['setCustomUrl', location.pathname]);
		_paq.push(['setDocumentTitle', document.title]);
		_paq.push(['trackPageView']);
	});`)

	return []row{
		{name: "Uptime Kuma, Chirpy, Matomo", page: snippet("var", ""), do: nextPage, want: []string{viewOfPage}},
		{name: "Quartz, Matomo", page: quartz, do: nextPage, want: []string{viewOfPage, "view /next"}},
	}
}
