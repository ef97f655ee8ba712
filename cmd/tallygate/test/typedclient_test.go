package test

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/Khan/genqlient/graphql"
	"github.com/vektah/gqlparser/v2/gqlerror"

	"github.com/tallygate/tallygate/db/model"
	"github.com/tallygate/tallygate/graph/client"
	"github.com/tallygate/tallygate/tools/testkit"
)

// TestTypedClient configures a site as docs/owner/configure-site.sh does, with a client that a public
// generator made from the schema. Its results are typed, so a response that differs from the schema
// fails here.
func TestTypedClient(t *testing.T) {
	t.Parallel()

	p := start(t, map[string]string{"TALLYGATE_DATA_DIR": t.TempDir()}, []string{"control", "data"})
	owner, token := tokenOf(t, p, "WRITE, EXPORT")
	api := graphql.NewClient(owner.Origin+"/graphql", bearer(token))

	site := configureTyped(t, api)
	if site.Domain != "example.com" || !site.MeasureSiteSearch || !site.MeasureEcommerce ||
		!site.ConversionWebhookSigned ||
		!model.IsSiteKey(site.SiteKey) || time.Since(site.CreatedAt) > time.Minute ||
		site.CreatedAt.Location() != time.UTC {
		t.Errorf("the site is %+v", site)
	}

	if got, want := fmt.Sprintln(site.ExtraDomains, site.RegisteredEvents, site.KeyEvents, site.ExcludedAddresses,
		*site.ConversionWebhookUrl, *site.DailyExportUrl),
		"[shop.example] [lead] [lead purchase] [192.0.2.0/24] https://example.com/hook?a=b&c=d https://example.com/daily\n"; got != want {
		t.Errorf("the site has %s, want %s", got, want)
	}

	listTyped(t, api, site.Id)
	useTyped(t, api, site.Id, p.addr["data"])
	refusedTyped(t, api, owner.Origin)
}

// bearer is an HTTP client that sends an API token.
type bearer string

// Do implements graphql.Doer.
func (b bearer) Do(r *http.Request) (*http.Response, error) {
	r.Header.Set("Authorization", "Bearer "+string(b))
	return (&http.Client{Timeout: patience}).Do(r)
}

// typed returns the result of a generated function, which must be complete.
func typed[Answer any](t *testing.T) func(*Answer, error) *Answer {
	return func(answer *Answer, err error) *Answer {
		t.Helper()
		testkit.NoError(t, err)
		return answer
	}
}

// configureTyped creates a site and applies the script's settings.
func configureTyped(t *testing.T, api graphql.Client) client.Configured {
	t.Helper()

	ctx := t.Context()
	created := typed[client.CreateSiteResponse](t)(client.CreateSite(ctx, api,
		client.CreateSiteInput{Domain: "Example.COM"})).CreateSite
	if len(created.UserErrors) > 0 {
		t.Fatalf("createSite: %+v", created.UserErrors)
	}

	id := created.Site.Id
	updated := typed[client.UpdateSiteResponse](t)(client.UpdateSite(ctx, api, client.UpdateSiteInput{
		SiteId: id, MeasureSiteSearch: new(true), MeasureEcommerce: new(true),
		ExcludedAddresses: []string{"192.0.2.0/24"}}))
	if site := updated.UpdateSite.Site; site == nil || !site.MeasureSiteSearch {
		t.Fatalf("updateSite: %+v", updated.UpdateSite)
	}

	typed[client.AddSiteDomainResponse](t)(client.AddSiteDomain(ctx, api,
		client.SiteDomainInput{SiteId: id, Domain: "shop.example"}))
	event := client.SiteEventInput{SiteId: id, Name: "lead"}
	typed[client.RegisterEventResponse](t)(client.RegisterEvent(ctx, api, event))
	typed[client.MarkKeyEventResponse](t)(client.MarkKeyEvent(ctx, api, event))
	typed[client.SetConversionWebhookResponse](t)(client.SetConversionWebhook(ctx, api,
		client.SetConversionWebhookInput{
			SiteId: id, Url: new("https://example.com/hook?a=b&c=d"), Secret: new("whisper whisper whisper")}))

	secret := typed[client.SetConversionWebhookResponse](t)(client.SetConversionWebhook(ctx, api,
		client.SetConversionWebhookInput{
			SiteId: id, Secret: new("another long secret")})).SetConversionWebhook
	if secret.Site == nil || secret.Site.ConversionWebhookUrl == nil {
		t.Fatalf("setConversionWebhook with a new secret alone: %+v", secret)
	}

	last := typed[client.SetDailyExportWebhookResponse](t)(client.SetDailyExportWebhook(ctx, api,
		client.SetDailyExportWebhookInput{
			SiteId: id, Url: new("https://example.com/daily")})).SetDailyExportWebhook
	if last.Site == nil {
		t.Fatalf("setDailyExportWebhook: %+v", last.UserErrors)
	}

	return *last.Site
}

// listTyped reads the sites one by one, by cursor.
func listTyped(t *testing.T, api graphql.Client, first string) {
	t.Helper()

	second := typed[client.CreateSiteResponse](t)(client.CreateSite(t.Context(), api,
		client.CreateSiteInput{Domain: "example.org", Name: new("Second")})).CreateSite
	if second.Site == nil {
		t.Fatalf("createSite: %+v", second.UserErrors)
	}

	var ids []string

	for after := (*string)(nil); ; {
		sites := typed[client.SitesResponse](t)(client.Sites(t.Context(), api, 1, after)).Sites
		if sites == nil || sites.TotalCount != 2 || len(sites.Edges) != 1 {
			t.Fatalf("the sites are %+v", sites)
		}

		ids = append(ids, sites.Edges[0].Node.Id)

		if after = sites.PageInfo.EndCursor; !sites.PageInfo.HasNextPage {
			break
		}
	}

	if got, want := fmt.Sprint(ids), fmt.Sprint([]string{first, second.Site.Id}); got != want {
		t.Errorf("the sites are %s, want %s", got, want)
	}
}

// useTyped creates the secrets, sends an event with one of them, and reads what a site's page
// shows.
func useTyped(t *testing.T, api graphql.Client, id, data string) {
	t.Helper()

	ctx := t.Context()
	rotated := typed[client.RotateServerSecretResponse](t)(client.RotateServerSecret(ctx, api,
		client.RotateServerSecretInput{SiteId: id})).RotateServerSecret
	if rotated.ServerSecret == nil || !model.IsSecret("svcs_", *rotated.ServerSecret) {
		t.Fatalf("rotateServerSecret: %+v", rotated)
	}

	await(t, data, *rotated.ServerSecret, `200 {"status":"recorded"}`)
	site := typed[client.InstallSiteResponse](t)(client.InstallSite(ctx, api, id)).Site
	if site == nil || !strings.Contains(site.ScriptTag, rotated.Site.SiteKey) || len(site.CspLines) == 0 ||
		site.LastHitAt == nil || site.Usage.Pageviews != 1 || site.Usage.Quota != nil || site.Usage.Percent != nil ||
		!site.Usage.ResetsAt.After(*site.LastHitAt) {
		t.Errorf("the site's page shows %+v", site)
	}

	key := typed[client.CreateSitekeyResponse](t)(client.CreateSitekey(ctx, api,
		client.CreateSitekeyInput{Name: "Contact form", Domains: []string{"example.com"}})).CreateSitekey
	if key.Sitekey == nil || key.Secret == nil || !model.IsSitekey(key.Sitekey.Sitekey) ||
		!model.IsSecret(model.CaptchaSecretPrefix, *key.Secret) ||
		!strings.Contains(key.Sitekey.WidgetTag, key.Sitekey.Sitekey) {
		t.Errorf("createSitekey: %+v", key)
	}
}

// refusedTyped makes the three kinds of mistakes that a program must distinguish: in the input, in
// an id, and in its token.
func refusedTyped(t *testing.T, api graphql.Client, control string) {
	t.Helper()

	ctx := t.Context()
	wrong := typed[client.CreateSiteResponse](t)(client.CreateSite(ctx, api,
		client.CreateSiteInput{Domain: "localhost"})).CreateSite
	if wrong.Site != nil || len(wrong.UserErrors) != 1 ||
		wrong.UserErrors[0].Code != client.UserErrorCodeInvalidDomain ||
		!slices.Equal(wrong.UserErrors[0].Field, []string{"input", "domain"}) || wrong.UserErrors[0].Message == "" {
		t.Errorf("of localhost, createSite returns %+v", wrong)
	}

	if site := typed[client.InstallSiteResponse](t)(client.InstallSite(ctx, api,
		"nonsense")).Site; site != nil {
		t.Errorf("an id that is none names %+v", site)
	}

	_, err := client.Sites(context.WithoutCancel(ctx), graphql.NewClient(control+"/graphql", bearer("tga_wrong")),
		1, nil)
	var refused gqlerror.List
	if !errors.As(err, &refused) || refused[0].Extensions["code"] != "UNAUTHENTICATED" {
		t.Errorf("with a wrong token: %v", err)
	}
}
