package resolver

import (
	"context"
	"encoding/json"
	"html"
	"strings"

	"github.com/tallygate/tallygate/db/model"
	"github.com/tallygate/tallygate/graph/generated"
)

// scriptTags are the tags of all kinds: the own one (analytics contract, section 3), and the usual
// tags of other products. URL, KEY and DOMAIN stand for the values of a site.
//
// The key is in the address wherever the product's id is a domain or a number. Umami's id can be
// the key itself.
var scriptTags = map[generated.ScriptTagKind]string{
	generated.ScriptTagKindTallygate:   `<script defer src="URL/svc.js" data-site="KEY"></script>`,
	generated.ScriptTagKindUmami:       `<script defer src="URL/script.js" data-website-id="KEY"></script>`,
	generated.ScriptTagKindPlausible:   `<script defer data-domain="DOMAIN" src="URL/KEY/js/script.js"></script>`,
	generated.ScriptTagKindGoatcounter: `<script data-goatcounter="URL/KEY/count" async src="URL/KEY/count.js"></script>`,
	generated.ScriptTagKindMatomo: `<script>
var _paq = window._paq = window._paq || [];
_paq.push(['trackPageView']);
_paq.push(['setTrackerUrl', "URL/KEY/matomo.php"], ['setSiteId', 'KEY']);
(function (script) {
  script.async = true;
  script.src = "URL/KEY/matomo.js";
  document.head.appendChild(script);
})(document.createElement('script'));
</script>`,
}

// ScriptTag returns the tag for every page of the site.
func (r *siteResolver) ScriptTag(ctx context.Context, obj *model.Site, kind generated.ScriptTagKind) (string, error) {
	return scriptTag(kind, r.analyticsURL, obj), nil
}

// scriptTag fills in the tag of a kind.
func scriptTag(kind generated.ScriptTagKind, analyticsURL string, site *model.Site) string {
	escape := html.EscapeString
	if kind == generated.ScriptTagKindMatomo {
		escape = escapeInScript
	}

	values := strings.NewReplacer("URL", escape(analyticsURL), "KEY", site.SiteKey, "DOMAIN", escape(site.Domain))
	return values.Replace(scriptTags[kind])
}

// escapeInScript escapes a text between double quotes in an inline script, where browsers decode no
// entities of HTML. JSON escapes "<", too, which could end the script.
func escapeInScript(text string) string {
	quoted, _ := json.Marshal(text) // a string has no errors
	return string(quoted[1 : len(quoted)-1])
}
