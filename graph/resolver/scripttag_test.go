package resolver

import (
	"testing"

	"github.com/tallygate/tallygate/db/model"
	"github.com/tallygate/tallygate/graph/generated"
)

// TestScriptTag compares the tag of each kind, also for values that HTML and JavaScript escape. The
// settings accept an origin such as http://a"b.
func TestScriptTag(t *testing.T) {
	const key = "0123456789abcdef0123456789abcdef"

	matomo := func(folder string) string {
		return "<script>\nvar _paq = window._paq = window._paq || [];\n_paq.push(['trackPageView']);\n" +
			`_paq.push(['setTrackerUrl', "` + folder + `/matomo.php"], ['setSiteId', '` + key + "']);\n" +
			"(function (script) {\n  script.async = true;\n  script.src = \"" + folder + "/matomo.js\";\n" +
			"  document.head.appendChild(script);\n})(document.createElement('script'));\n</script>"
	}

	const (
		usual, usualDomain = "https://stats.example.com", "xn--bcher-kva.example"
		odd, oddDomain     = `http://a"b'c<d>&e`, `"><i>&KEY.example`
		escaped            = "http://a&#34;b&#39;c&lt;d&gt;&amp;e"
	)
	for _, test := range []struct {
		kind              generated.ScriptTagKind
		analytics, domain string
		want              string
	}{
		{"TALLYGATE", usual, usualDomain, `<script defer src="https://stats.example.com/svc.js" data-site="` + key + `"></script>`},
		{"TALLYGATE", odd, oddDomain, `<script defer src="` + escaped + `/svc.js" data-site="` + key + `"></script>`},
		{"UMAMI", usual, usualDomain, `<script defer src="https://stats.example.com/script.js" data-website-id="` + key + `"></script>`},
		{"UMAMI", odd, oddDomain, `<script defer src="` + escaped + `/script.js" data-website-id="` + key + `"></script>`},
		{
			"PLAUSIBLE", usual, usualDomain,
			`<script defer data-domain="xn--bcher-kva.example" src="https://stats.example.com/` + key + `/js/script.js"></script>`,
		},
		{
			"PLAUSIBLE", odd, oddDomain,
			`<script defer data-domain="&#34;&gt;&lt;i&gt;&amp;KEY.example" src="` + escaped + "/" + key + `/js/script.js"></script>`,
		},
		{
			"GOATCOUNTER", usual, usualDomain,
			`<script data-goatcounter="https://stats.example.com/` + key + `/count" async src="https://stats.example.com/` + key + `/count.js"></script>`,
		},
		{
			"GOATCOUNTER", odd, oddDomain,
			`<script data-goatcounter="` + escaped + "/" + key + `/count" async src="` + escaped + "/" + key + `/count.js"></script>`,
		},
		{"MATOMO", usual, usualDomain, matomo("https://stats.example.com/" + key)},
		{"MATOMO", odd, oddDomain, matomo(`http://a\"b'c\u003cd\u003e\u0026e/` + key)},
	} {
		if got := scriptTag(test.kind, test.analytics, &model.Site{SiteKey: key, Domain: test.domain}); got != test.want {
			t.Errorf("%s at %s: %s\nwant %s", test.kind, test.analytics, got, test.want)
		}
	}

	if len(scriptTags) != len(generated.AllScriptTagKind) {
		t.Errorf("%d tags, %d kinds", len(scriptTags), len(generated.AllScriptTagKind))
	}
}
