// Package target is a client of the instance under load: it signs in, creates sites, and reads
// usage, deliveries and exports through the public interfaces of the control plane.
package target

import (
	"bytes"
	"context"
	"crypto/rand"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"net/http/cookiejar"
	"strings"
	"time"

	"github.com/Khan/genqlient/graphql"

	"github.com/tallygate/tallygate/graph/client"
	"github.com/tallygate/tallygate/tools/loadgen/load"
)

// Target is a running instance and the account to use there.
type Target struct {
	Control  string `json:"control"` // origin of the control plane
	Data     string `json:"data"`    // host:port of the data plane
	Email    string `json:"email"`
	Password string `json:"password"`
	Token    string `json:"token,omitempty"` // API token, instead of the password
}

// Site is one website of the run.
type Site struct {
	ID     string `json:"id"`
	Key    string `json:"siteKey"`
	Domain string `json:"domain"`
	Secret string `json:"secret,omitempty"` // server secret key
	Used   int64  `json:"used"`             // page views and events counted this month before the run
}

// Origin returns the origin of the site's pages.
func (s *Site) Origin() string { return "https://www." + s.Domain }

// Features are the optional features that could be set up on the target.
type Features struct {
	OwnEvents   bool `json:"ownEvents"`   // OwnEvents are registered
	Ecommerce   bool `json:"ecommerce"`   // e-commerce events are measured
	Conversions bool `json:"conversions"` // a conversion webhook is set; purchase and OwnEvents[0] are key events
}

// OwnEvents are the event names that each site registers. The first one is marked as key event.
var OwnEvents = []string{"signup", "newsletter"}

// Account is a client of the control plane, signed in as one user.
type Account struct {
	Target Target
	http   *http.Client
	Notes  []string // features that could not be set up, in sentences
	wait   func(context.Context, time.Duration) error
}

// controlTimeout is the longest call of the control plane. Signing in is slow by design.
const controlTimeout = 60 * time.Second

// longestWait is the longest wait for the rate limit, which refills within a minute.
const longestWait = 2 * time.Minute

// NewAccount returns a client for the target's account. It does not sign in.
func NewAccount(t Target) (*Account, error) {
	jar, err := cookiejar.New(nil)
	if err != nil {
		return nil, err
	}
	return &Account{Target: t, http: &http.Client{Jar: jar, Timeout: controlTimeout}, wait: load.Wait}, nil
}

// UseNewAccount sets a random e-mail address and password if there is neither an address nor a
// token.
func (t *Target) UseNewAccount() {
	if t.Email == "" && t.Token == "" {
		t.Email, t.Password = "load-"+strings.ToLower(rand.Text()[:12])+"@loadgen.example", rand.Text()
	}
}

// callError is an error that the control plane returned.
type callError struct {
	Code, Message string
	retryAfter    time.Duration // 0: not given
}

func (e *callError) Error() string {
	return fmt.Sprintf("the control plane returned %s: %s", e.Code, e.Message)
}

// MakeRequest implements graphql.Client. When the caller is rate limited, it waits and retries.
func (a *Account) MakeRequest(ctx context.Context, request *graphql.Request, response *graphql.Response) error {
	for {
		err := a.Ask(ctx, request.Query, request.Variables, response.Data)
		e, ok := errors.AsType[*callError](err)
		if !ok || e.Code != "RATE_LIMITED" || e.retryAfter <= 0 || e.retryAfter > longestWait {
			return err
		}
		if err := a.wait(ctx, e.retryAfter); err != nil {
			return err
		}
	}
}

// IsRateLimited reports whether a call was refused by the rate limit.
func IsRateLimited(err error) bool { return CodeOf(err) == "RATE_LIMITED" }

// CodeOf returns the code of an error that the control plane returned, or an empty string.
func CodeOf(err error) string {
	if e, ok := errors.AsType[*callError](err); ok {
		return e.Code
	}
	if m, ok := errors.AsType[*client.Mistake](err); ok {
		return string(m.Code)
	}
	return ""
}

// Ask makes one attempt at a GraphQL operation and decodes its data.
func (a *Account) Ask(ctx context.Context, query string, variables, data any) error {
	body, err := json.Marshal(map[string]any{"query": query, "variables": variables})
	if err != nil {
		return err
	}

	request, err := http.NewRequestWithContext(ctx, http.MethodPost, a.Target.Control+"/graphql", bytes.NewReader(body))
	if err != nil {
		return err
	}

	request.Header.Set("Content-Type", "application/json")
	a.authorize(request)

	response, err := a.http.Do(request)
	if err != nil {
		return err
	}
	defer response.Body.Close()

	var reply struct {
		Data   json.RawMessage
		Errors []struct {
			Message    string
			Extensions struct {
				Code       string
				RetryAfter float64 // seconds
			}
		}
	}
	if err := json.NewDecoder(response.Body).Decode(&reply); err != nil {
		return fmt.Errorf("the control plane responded %s: %w", response.Status, err)
	}

	if len(reply.Errors) > 0 {
		first := reply.Errors[0]
		return &callError{Code: first.Extensions.Code, Message: first.Message,
			retryAfter: time.Duration(first.Extensions.RetryAfter * float64(time.Second))}
	}

	return json.Unmarshal(reply.Data, data)
}

func (a *Account) authorize(r *http.Request) {
	if a.Target.Token != "" {
		r.Header.Set("Authorization", "Bearer "+a.Target.Token)
	}
}

// SignIn signs in, or signs up if the address is unknown.
func (a *Account) SignIn(ctx context.Context) error {
	if a.Target.Token != "" {
		return nil
	}

	in, err := client.SignIn(ctx, a, a.Target.Email, a.Target.Password)
	if err := client.Refused(err, in.SignIn); CodeOf(err) != "WRONG_CREDENTIALS" {
		return err
	}

	up, err := client.SignUp(ctx, a, a.Target.Email, a.Target.Password, "Load test")
	if err := client.Refused(err, up.SignUp); err != nil {
		return fmt.Errorf("neither sign-in nor sign-up succeeds; set --email and --password to an existing account: %w",
			err)
	}

	return nil
}

// CreateSite creates a site.
func (a *Account) CreateSite(ctx context.Context, domain string) (Site, error) {
	created, err := client.CreateSite(ctx, a, client.CreateSiteInput{Domain: domain})
	if err := client.Refused(err, created.CreateSite); err != nil {
		return Site{}, err
	}

	site := created.CreateSite.Site
	return Site{ID: site.Id, Key: site.SiteKey, Domain: site.Domain}, nil
}

// RegisterEvent registers an event of a site.
func (a *Account) RegisterEvent(ctx context.Context, siteID, name string) error {
	done, err := client.RegisterEvent(ctx, a, client.SiteEventInput{SiteId: siteID, Name: name})
	return client.Refused(err, done.RegisterEvent)
}

// SetPlan puts a site on the plan Enterprise.
func (a *Account) SetPlan(ctx context.Context, siteID string, monthlyPageviews int64) error {
	done, err := client.SetSitePlan(ctx, a, siteID, client.SitePlanEnterprise, monthlyPageviews)
	return client.Refused(err, done.SetSitePlan)
}

// NewServerSecret returns a new server secret of a site.
func (a *Account) NewServerSecret(ctx context.Context, siteID string) (string, error) {
	done, err := client.RotateServerSecret(ctx, a, client.RotateServerSecretInput{SiteId: siteID})
	if err := client.Refused(err, done.RotateServerSecret); err != nil {
		return "", err
	}
	return *done.RotateServerSecret.ServerSecret, nil
}

// NoReceiver is the address of a conversion webhook whose name does not resolve: deliveries are
// stored and counted, but not sent anywhere.
const NoReceiver = "https://receiver.invalid/conversion"

// PrepareSites creates n sites with every feature that the traffic needs, and with a conversion
// webhook at the given address. Features that the target refuses are left out and described in
// Notes.
func (a *Account) PrepareSites(ctx context.Context, n int, webhook string) ([]Site, Features, error) {
	run := strings.ToLower(rand.Text()[:8])
	sites := make([]Site, n)
	f := Features{OwnEvents: true, Ecommerce: true, Conversions: true}

	plan, servers := true, true
	for i := range sites {
		var err error
		sites[i], err = a.CreateSite(ctx, fmt.Sprintf("load-%s-%d.example", run, i))
		if err != nil {
			return nil, f, fmt.Errorf("create site %d: %w", i, err)
		}

		site := &sites[i]
		a.try(&plan, "sites keep their plan, whose quota may refuse hits with 429", "setSitePlan", func() error {
			return a.SetPlan(ctx, site.ID, 1_000_000_000)
		})

		for _, name := range OwnEvents {
			a.try(&f.OwnEvents, "no own events are sent", "registerEvent", func() error {
				return a.RegisterEvent(ctx, site.ID, name)
			})
		}

		a.try(&f.Ecommerce, "no e-commerce events are sent", "updateSite", func() error {
			done, err := client.MeasureEcommerce(ctx, a, site.ID)
			return client.Refused(err, done.UpdateSite)
		})

		a.try(&f.Conversions, "no deliveries are checked", "setConversionWebhook", func() error {
			done, err := client.SetConversionWebhook(ctx, a,
				client.SetConversionWebhookInput{SiteId: site.ID, Url: &webhook})
			return client.Refused(err, done.SetConversionWebhook)
		})

		if f.OwnEvents {
			a.try(&f.Conversions, "no deliveries are checked", "markKeyEvent", func() error {
				done, err := client.MarkKeyEvent(ctx, a, client.SiteEventInput{SiteId: site.ID, Name: OwnEvents[0]})
				return client.Refused(err, done.MarkKeyEvent)
			})
		}

		a.try(&servers, "nothing is sent to /server.php", "rotateServerSecret", func() (err error) {
			site.Secret, err = a.NewServerSecret(ctx, site.ID)
			return err
		})
	}

	return sites, f, nil
}

// try runs a mutation that the target may refuse. A refusal clears the feature, is noted, and
// prevents further attempts.
func (a *Account) try(feature *bool, consequence, name string, mutate func() error) {
	if !*feature {
		return
	}

	if err := mutate(); err != nil {
		*feature = false
		a.Notes = append(a.Notes, fmt.Sprintf("%s: %s: %v", consequence, name, err))
	}
}

// Usage is a site's use of its quota in one month.
type Usage = client.MonthlyUsage

// Usage returns a site's usage of the current month.
func (a *Account) Usage(ctx context.Context, siteID string) (Usage, error) {
	data, err := client.Usage(ctx, a, siteID)
	if err != nil || data.Site == nil {
		return Usage{}, errors.Join(err, fmt.Errorf("read the usage of site %s", siteID))
	}
	return data.Site.Usage, nil
}

// Deliveries counts a site's conversion deliveries by event, in all states or, unless state is
// empty, in one.
func (a *Account) Deliveries(ctx context.Context, siteID, state string) (map[string]int64, error) {
	count := make(map[string]int64)
	var after *string

	for {
		data, err := client.Deliveries(ctx, a, siteID, client.DeliveryState(state), after)
		if err != nil || data.Site == nil {
			return nil, errors.Join(err, fmt.Errorf("read the deliveries of site %s", siteID))
		}

		page := data.Site.Deliveries
		for _, delivery := range page.Nodes {
			count[delivery.Event]++
		}
		if !page.PageInfo.HasNextPage {
			return count, nil
		}

		after = page.PageInfo.EndCursor
	}
}
