package main

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

// target is a running instance and who we are there.
type target struct {
	Control  string `json:"control"` // origin of the control plane
	Data     string `json:"data"`    // host:port of the data plane
	Email    string `json:"email"`
	Password string `json:"password"`
	Token    string `json:"token,omitempty"` // API token, instead of the password
}

// site is one website of the run.
type site struct {
	ID     string `json:"id"`
	Key    string `json:"siteKey"`
	Domain string `json:"domain"`
	Secret string `json:"secret,omitempty"` // server secret key
	Used   int64  `json:"used"`             // page views and events of the month before the run
}

func (s *site) origin() string { return "https://www." + s.Domain }

// features are what the target let us set up.
type features struct {
	OwnEvents   bool `json:"ownEvents"`   // ownEvents are registered
	Ecommerce   bool `json:"ecommerce"`   // e-commerce events are measured
	Conversions bool `json:"conversions"` // there is a conversion webhook, and purchase and ownEvents[0] are key events
}

// account is a client of the control plane.
type account struct {
	target target
	http   *http.Client
	notes  []string // what could not be set up, in sentences
	wait   func(context.Context, time.Duration) error
}

// controlTimeout bounds one call of the control plane. Signing in is slow on purpose.
const controlTimeout = 60 * time.Second

// longestWait bounds the wait for points: they are back within a minute.
const longestWait = 2 * time.Minute

func newAccount(t target) (*account, error) {
	jar, err := cookiejar.New(nil)
	if err != nil {
		return nil, err
	}
	return &account{target: t, http: &http.Client{Jar: jar, Timeout: controlTimeout}, wait: pause}, nil
}

// pause waits. It fails if ctx ends before.
func pause(ctx context.Context, d time.Duration) error {
	select {
	case <-time.After(d):
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

// newcomer fills in an e-mail address and a password that nobody has, if there are none.
func (t *target) newcomer() {
	if t.Email == "" && t.Token == "" {
		t.Email, t.Password = "load-"+strings.ToLower(rand.Text()[:12])+"@loadgen.example", rand.Text()
	}
}

// callError is an answer of the control plane that is not the one we want.
type callError struct {
	Code, Message string
	retryAfter    time.Duration // 0: not told
}

func (e *callError) Error() string {
	return fmt.Sprintf("the control plane says %s: %s", e.Code, e.Message)
}

// call runs a GraphQL operation and reads its data. When the caller's points are used up, it waits
// for new ones.
func (a *account) call(ctx context.Context, query string, variables, data any) error {
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

// ask is one attempt to call.
func (a *account) ask(ctx context.Context, query string, variables, data any) error {
	body, err := json.Marshal(map[string]any{"query": query, "variables": variables})
	if err != nil {
		return err
	}

	request, err := http.NewRequestWithContext(ctx, http.MethodPost, a.target.Control+"/graphql", bytes.NewReader(body))
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
		return fmt.Errorf("the control plane answers %s: %w", response.Status, err)
	}

	if len(reply.Errors) > 0 {
		first := reply.Errors[0]
		return &callError{Code: first.Extensions.Code, Message: first.Message,
			retryAfter: time.Duration(first.Extensions.RetryAfter * float64(time.Second))}
	}

	return json.Unmarshal(reply.Data, data)
}

func (a *account) authorize(r *http.Request) {
	if a.target.Token != "" {
		r.Header.Set("Authorization", "Bearer "+a.target.Token)
	}
}

// sharedInputs are the inputs that are not named after their mutation.
var sharedInputs = map[string]string{"registerEvent": "SiteEventInput", "markKeyEvent": "SiteEventInput"}

// change runs a mutation by the conventions of our schema: one input, and userErrors beside the
// object. selection is what to read of the payload into data, and may be empty.
func (a *account) change(ctx context.Context, name, selection string, input map[string]any, data any) error {
	inputType, ok := sharedInputs[name]
	if !ok {
		inputType = strings.ToUpper(name[:1]) + name[1:] + "Input"
	}

	query := fmt.Sprintf("mutation ($input: %s!) { payload: %s(input: $input) { %s userErrors { code message } } }", inputType, name, selection)
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

// signIn signs in, or up if nobody has the address yet.
func (a *account) signIn(ctx context.Context) error {
	if a.target.Token != "" {
		return nil
	}

	input := map[string]any{"email": a.target.Email, "password": a.target.Password}
	err := a.change(ctx, "signIn", "", input, nil)
	if e, ok := errors.AsType[*callError](err); !ok || e.Code != "WRONG_CREDENTIALS" {
		return err
	}

	input["accountName"] = "Load test"
	if err := a.change(ctx, "signUp", "", input, nil); err != nil {
		return fmt.Errorf("neither sign-in nor sign-up succeeds; name an account with --email and --password: %w", err)
	}

	return nil
}

// prepareSites makes sites for a run, with everything on that the mix needs. What the target does
// not permit is left out, with a sentence in notes.
func (a *account) prepareSites(ctx context.Context, n int) ([]site, features, error) {
	run := strings.ToLower(rand.Text()[:8])
	sites := make([]site, n)
	f := features{OwnEvents: true, Ecommerce: true, Conversions: true}

	plan, servers := true, true
	for i := range sites {
		var created struct{ Site site }
		input := map[string]any{"domain": fmt.Sprintf("load-%s-%d.example", run, i)}
		if err := a.change(ctx, "createSite", "site { id siteKey domain }", input, &created); err != nil {
			return nil, f, fmt.Errorf("create site %d: %w", i, err)
		}

		sites[i] = created.Site
		set := func(feature *bool, consequence, name string, input map[string]any) {
			input["siteId"] = created.Site.ID
			a.try(ctx, feature, consequence, name, "", input, nil)
		}

		set(&plan, "sites keep their plan, whose quota may refuse hits with 429", "setSitePlan",
			map[string]any{"plan": "ENTERPRISE", "monthlyPageviews": 1_000_000_000})

		for _, name := range ownEvents {
			set(&f.OwnEvents, "no own events are sent", "registerEvent", map[string]any{"name": name})
		}

		set(&f.Ecommerce, "no e-commerce events are sent", "updateSite", map[string]any{"measureEcommerce": true})

		// The name resolves nowhere: deliveries are made and counted, and nobody is bothered.
		set(&f.Conversions, "no deliveries are checked", "setConversionWebhook", map[string]any{"url": "https://receiver.invalid/conversion"})

		if f.OwnEvents {
			set(&f.Conversions, "no deliveries are checked", "markKeyEvent", map[string]any{"name": ownEvents[0]})
		}

		var rotated struct{ ServerSecret string }
		a.try(ctx, &servers, "nothing is sent to /server.php", "rotateServerSecret", "serverSecret", map[string]any{"siteId": created.Site.ID}, &rotated)
		sites[i].Secret = rotated.ServerSecret
	}

	return sites, f, nil
}

// try runs a mutation that the target may not permit. A failure clears the feature, is noted, and
// spares further attempts.
func (a *account) try(ctx context.Context, feature *bool, consequence, name, selection string, input map[string]any, data any) {
	if !*feature {
		return
	}

	err := a.change(ctx, name, selection, input, data)
	if err == nil {
		return
	}

	*feature = false
	a.notes = append(a.notes, fmt.Sprintf("%s: %s: %v", consequence, name, err))
}

// usage is what a site has used of its quota.
type usage struct {
	Period    string // YYYY-MM
	Pageviews int64
}

func (a *account) usage(ctx context.Context, siteID string) (usage, error) {
	var data struct{ Site *struct{ Usage usage } }
	err := a.call(ctx, `query ($id: ID!) { site(id: $id) { usage { period pageviews } } }`, map[string]any{"id": siteID}, &data)
	if err != nil || data.Site == nil {
		return usage{}, errors.Join(err, fmt.Errorf("read the usage of site %s", siteID))
	}
	return data.Site.Usage, nil
}

// deliveries counts a site's deliveries of conversions by their events.
func (a *account) deliveries(ctx context.Context, siteID string) (map[string]int64, error) {
	const query = `query ($id: ID!, $after: String) { site(id: $id) { deliveries(first: 100, after: $after) {
		edges { node { kind event } } pageInfo { hasNextPage endCursor } } } }`

	variables := map[string]any{"id": siteID, "after": nil}
	count := make(map[string]int64)

	for {
		var data struct {
			Site *struct {
				Deliveries struct {
					Edges    []struct{ Node struct{ Kind, Event string } }
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
			if strings.EqualFold(edge.Node.Kind, "conversion") {
				count[edge.Node.Event]++
			}
		}

		if !data.Site.Deliveries.PageInfo.HasNextPage {
			return count, nil
		}

		variables["after"] = data.Site.Deliveries.PageInfo.EndCursor
	}
}
