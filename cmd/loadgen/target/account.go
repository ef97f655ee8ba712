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
	return &Account{Target: t, http: &http.Client{Jar: jar, Timeout: controlTimeout}, wait: wait}, nil
}

// wait waits for d, or returns the error of ctx if that ends first.
func wait(ctx context.Context, d time.Duration) error {
	select {
	case <-time.After(d):
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
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

// call runs a GraphQL operation and decodes its data. When the caller is rate limited, it waits and
// retries.
func (a *Account) call(ctx context.Context, query string, variables, data any) error {
	for {
		err := a.ask(ctx, query, variables, data)
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
	return ""
}

// Ask makes one attempt at a GraphQL operation and decodes its data.
func (a *Account) Ask(ctx context.Context, query string, variables, data any) error {
	return a.ask(ctx, query, variables, data)
}

// ask makes one attempt to call.
func (a *Account) ask(ctx context.Context, query string, variables, data any) error {
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

// sharedInputs are the mutations whose input type is not named after them.
var sharedInputs = map[string]string{"registerEvent": "SiteEventInput", "markKeyEvent": "SiteEventInput"}

// Mutate runs a mutation of one input, whose payload lists userErrors. It decodes the selected
// fields of the payload into data. selection may be empty.
func (a *Account) Mutate(ctx context.Context, name, selection string, input map[string]any, data any) error {
	inputType, ok := sharedInputs[name]
	if !ok {
		inputType = strings.ToUpper(name[:1]) + name[1:] + "Input"
	}

	query := fmt.Sprintf("mutation ($input: %s!) { payload: %s(input: $input) { %s userErrors { code message } } }",
		inputType, name, selection)
	var reply struct{ Payload json.RawMessage }
	if err := a.call(ctx, query, map[string]any{"input": input}, &reply); err != nil {
		return err
	}

	var mistakes struct{ UserErrors []callError }
	if err := json.Unmarshal(reply.Payload, &mistakes); err != nil {
		return err
	}
	if len(mistakes.UserErrors) > 0 {
		return &mistakes.UserErrors[0]
	}
	if data == nil {
		return nil
	}

	return json.Unmarshal(reply.Payload, data)
}

// SignIn signs in, or signs up if the address is unknown.
func (a *Account) SignIn(ctx context.Context) error {
	if a.Target.Token != "" {
		return nil
	}

	input := map[string]any{"email": a.Target.Email, "password": a.Target.Password}
	err := a.Mutate(ctx, "signIn", "", input, nil)
	if e, ok := errors.AsType[*callError](err); !ok || e.Code != "WRONG_CREDENTIALS" {
		return err
	}

	input["accountName"] = "Load test"
	if err := a.Mutate(ctx, "signUp", "", input, nil); err != nil {
		return fmt.Errorf("neither sign-in nor sign-up succeeds; set --email and --password to an existing account: %w",
			err)
	}

	return nil
}

// NoReceiver is the address of a conversion webhook whose name does not resolve: deliveries are stored and
// counted, but not sent anywhere.
const NoReceiver = "https://receiver.invalid/conversion"

// PrepareSites creates n sites with every feature that the traffic needs, and with a conversion webhook
// at the given address. Features that the target refuses are left out and described in Notes.
func (a *Account) PrepareSites(ctx context.Context, n int, webhook string) ([]Site, Features, error) {
	run := strings.ToLower(rand.Text()[:8])
	sites := make([]Site, n)
	f := Features{OwnEvents: true, Ecommerce: true, Conversions: true}

	plan, servers := true, true
	for i := range sites {
		var created struct{ Site Site }
		input := map[string]any{"domain": fmt.Sprintf("load-%s-%d.example", run, i)}
		if err := a.Mutate(ctx, "createSite", "site { id siteKey domain }", input, &created); err != nil {
			return nil, f, fmt.Errorf("create site %d: %w", i, err)
		}

		sites[i] = created.Site
		set := func(feature *bool, consequence, name string, input map[string]any) {
			input["siteId"] = created.Site.ID
			a.try(ctx, feature, consequence, name, "", input, nil)
		}

		set(&plan, "sites keep their plan, whose quota may refuse hits with 429", "setSitePlan",
			map[string]any{"plan": "ENTERPRISE", "monthlyPageviews": 1_000_000_000})

		for _, name := range OwnEvents {
			set(&f.OwnEvents, "no own events are sent", "registerEvent", map[string]any{"name": name})
		}

		set(&f.Ecommerce, "no e-commerce events are sent", "updateSite", map[string]any{"measureEcommerce": true})

		set(&f.Conversions, "no deliveries are checked", "setConversionWebhook", map[string]any{"url": webhook})

		if f.OwnEvents {
			set(&f.Conversions, "no deliveries are checked", "markKeyEvent", map[string]any{"name": OwnEvents[0]})
		}

		var rotated struct{ ServerSecret string }
		a.try(ctx, &servers, "nothing is sent to /server.php", "rotateServerSecret", "serverSecret",
			map[string]any{"siteId": created.Site.ID}, &rotated)
		sites[i].Secret = rotated.ServerSecret
	}

	return sites, f, nil
}

// try runs a mutation that the target may refuse. A refusal clears the feature, is noted, and
// prevents further attempts.
func (a *Account) try(ctx context.Context, feature *bool, consequence, name, selection string, input map[string]any,
	data any) {
	if !*feature {
		return
	}

	err := a.Mutate(ctx, name, selection, input, data)
	if err == nil {
		return
	}

	*feature = false
	a.Notes = append(a.Notes, fmt.Sprintf("%s: %s: %v", consequence, name, err))
}

// Usage is a site's use of its quota in one month.
type Usage struct {
	Period    string // YYYY-MM
	Pageviews int64
}

// Usage returns a site's usage of the current month.
func (a *Account) Usage(ctx context.Context, siteID string) (Usage, error) {
	var data struct{ Site *struct{ Usage Usage } }
	err := a.call(ctx, `query ($id: ID!) { site(id: $id) { usage { period pageviews } } }`,
		map[string]any{"id": siteID}, &data)
	if err != nil || data.Site == nil {
		return Usage{}, errors.Join(err, fmt.Errorf("read the usage of site %s", siteID))
	}
	return data.Site.Usage, nil
}

// Deliveries counts a site's conversion deliveries by event, in all states or, unless state is empty, in one.
func (a *Account) Deliveries(ctx context.Context, siteID, state string) (map[string]int64, error) {
	const query = `query ($id: ID!, $filter: DeliveryFilter, $after: String) { site(id: $id) {
		deliveries(first: 100, filter: $filter, after: $after) { edges { node { event } } pageInfo { hasNextPage endCursor } } } }`

	filter := map[string]any{"kind": "CONVERSION"}
	if state != "" {
		filter["state"] = state
	}
	variables := map[string]any{"id": siteID, "filter": filter, "after": nil}
	count := make(map[string]int64)

	for {
		var data struct {
			Site *struct {
				Deliveries struct {
					Edges    []struct{ Node struct{ Event string } }
					PageInfo struct {
						HasNextPage bool
						EndCursor   *string
					}
				}
			}
		}
		if err := a.call(ctx, query, variables, &data); err != nil || data.Site == nil {
			return nil, errors.Join(err, fmt.Errorf("read the deliveries of site %s", siteID))
		}

		for _, edge := range data.Site.Deliveries.Edges {
			count[edge.Node.Event]++
		}

		if !data.Site.Deliveries.PageInfo.HasNextPage {
			return count, nil
		}

		variables["after"] = data.Site.Deliveries.PageInfo.EndCursor
	}
}
