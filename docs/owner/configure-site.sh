#!/bin/sh
# Create a site and configure it, with curl and an API token with the scope WRITE; WEBHOOK_URL and DAILY_URL also need the
# scope EXPORT:
#
#   TALLYGATE_URL=https://app.example.com TALLYGATE_API_TOKEN=tga_… sh docs/owner/configure-site.sh example.com
#
# It stops at the first error. Run again, it reuses the existing site and replaces its server secret. Optional:
#   EXTRA_DOMAIN   another domain with pages that send hits
#   EVENT          an event name of your own, which becomes a key event (default: signup)
#   WEBHOOK_URL    where key events are sent
#   WEBHOOK_SECRET signs these calls: 16 characters or more
#   DAILY_URL      where each day's events are sent when the day is over
#   EXCLUDE        an address or network without stored hits, for instance your office
#   SITEKEY_NAME   creates a captcha sitekey of this name, bound to the domain; each run creates another one
set -eu

: "${TALLYGATE_URL:?set it to the origin of your account application}"
: "${TALLYGATE_API_TOKEN:?set it to an API token with the scopes WRITE and, for webhooks, EXPORT}"
domain=${1:?the domain of the site, for instance example.com}
event=${EVENT:-signup}

# Values are inserted into JSON without escaping, so refuse values that would need it.
for value in "$domain" "$event" "${EXTRA_DOMAIN:-}" "${WEBHOOK_URL:-}" "${WEBHOOK_SECRET:-}" "${DAILY_URL:-}" "${EXCLUDE:-}" \
	"${SITEKEY_NAME:-}"; do
	case $value in
	*[\"\\]* | *[[:cntrl:]]*) echo "not a plain value: $value" >&2; exit 2 ;;
	esac
done

# graphql QUERY VARIABLES prints the response.
graphql() {
	printf '{"query":"%s","variables":%s}' "$1" "$2" |
		curl --silent --show-error --header "Authorization: Bearer $TALLYGATE_API_TOKEN" \
			--header 'Content-Type: application/json' --data-binary @- "$TALLYGATE_URL/graphql"
}

# text FIELD extracts the first string of that name from a response.
text() {
	sed -nE 's/.*"'"$1"'":"(([^"\\]|\\.)*)".*/\1/p' | sed 's/\\"/"/g; s/\\u003c/</g; s/\\u003e/>/g; s/\\u0026/\&/g'
}

# change MUTATION INPUT runs a mutation of the site, and stops when it has userErrors or errors.
change() {
	answer=$(graphql "mutation(\$input: $2!) { $1(input: \$input) { userErrors { field code message } } }" "{\"input\":{\"siteId\":\"$site\"$3}}")
	case $answer in
	*'"userErrors":[]'*) echo "$1: done" ;;
	*) echo "$1: $answer" >&2; exit 1 ;;
	esac
}

answer=$(graphql 'mutation($domain: String!) { createSite(input: {domain: $domain}) { site { id } userErrors { code message } } }' "{\"domain\":\"$domain\"}")
case $answer in
*'"userErrors":[]'*)
	site=$(echo "$answer" | text id)
	echo "createSite: done" ;;
*'"DOMAIN_TAKEN"'*)
	# Find the site: one pair of id and domain per line.
	site=$(graphql '{ sites(first: 100) { edges { node { id domain } } } }' '{}' | tr '{' '\n' | grep -F "\"domain\":\"$domain\"" | text id)
	echo "createSite: the site is there already" ;;
*) echo "createSite: $answer" >&2; exit 1 ;;
esac

change updateSite UpdateSiteInput ',"measureSiteSearch":true,"measureEcommerce":true'
[ -z "${EXCLUDE:-}" ] || change updateSite UpdateSiteInput ",\"excludedAddresses\":[\"$EXCLUDE\"]"
[ -z "${EXTRA_DOMAIN:-}" ] || change addSiteDomain SiteDomainInput ",\"domain\":\"$EXTRA_DOMAIN\""
change registerEvent SiteEventInput ",\"name\":\"$event\""
change markKeyEvent SiteEventInput ",\"name\":\"$event\""
[ -z "${WEBHOOK_URL:-}" ] || change setConversionWebhook SetConversionWebhookInput ",\"url\":\"$WEBHOOK_URL\"${WEBHOOK_SECRET:+,\"secret\":\"$WEBHOOK_SECRET\"}"
[ -z "${DAILY_URL:-}" ] || change setDailyExportWebhook SetDailyExportWebhookInput ",\"url\":\"$DAILY_URL\""

answer=$(graphql 'mutation($id: ID!) { rotateServerSecret(input: {siteId: $id}) { serverSecret site { siteKey } userErrors { code message } } }' "{\"id\":\"$site\"}")
secret=$(echo "$answer" | text serverSecret)
[ -n "$secret" ] || { echo "rotateServerSecret: $answer" >&2; exit 1; }

echo
echo "Site id:       $site"
echo "Site key:      $(echo "$answer" | text siteKey)"
echo "Server secret: $secret (keep it: it is not shown again)"
echo "Script tag:    $(graphql 'query($id: ID!) { site(id: $id) { scriptTag } }' "{\"id\":\"$site\"}" | text scriptTag)"

[ -n "${SITEKEY_NAME:-}" ] || exit 0
answer=$(graphql 'mutation($input: CreateSitekeyInput!) { createSitekey(input: $input) { sitekey { sitekey } secret userErrors { code message } } }' \
	"{\"input\":{\"name\":\"$SITEKEY_NAME\",\"domains\":[\"$domain\"]}}")
secret=$(echo "$answer" | text secret)
[ -n "$secret" ] || { echo "createSitekey: $answer" >&2; exit 1; }
sitekey=$(echo "$answer" | text sitekey)

echo "Sitekey:       $sitekey"
echo "Its secret:    $secret (keep it: it is not shown again)"
