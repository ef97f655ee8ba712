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

// Target is a running instance and who we are there.
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
	Used   int64  `json:"used"`             // page views and events of the month before the run
}

func (s *Site) Origin() string { return "https://www." + s.Domain }

// Features are what the target let us set up.
type Features struct {
	OwnEvents   bool `json:"ownEvents"`   // ownEvents are registered
	Ecommerce   bool `json:"ecommerce"`   // e-commerce events are measured
	Conversions bool `json:"conversions"` // there is a conversion webhook, and purchase and ownEvents[0] are key events
}

// The names that sites register for the mix. The first one is marked as key event.
var OwnEvents = []string{"signup", "newsletter"}

// Account is a client of the control plane.
type Account struct {
	Target Target
	http   *http.Client
	Notes  []string // what could not be set up, in sentences
	wait   func(context.Context, time.Duration) error
}

// controlTimeout bounds one call of the control plane. Signing in is slow on purpose.
const controlTimeout = 60 * time.Second

// longestWait bounds the wait for points: they are back within a minute.
const longestWait = 2 * time.Minute

func NewAccount(t Target) (*Account, error) {
	jar, err := cookiejar.New(nil)
	if err != nil {
		return nil, err
	}
	return &Account{Target: t, http: &http.Client{Jar: jar, Timeout: controlTimeout}, wait: wait}, nil
}

// wait waits. It fails if ctx ends before.
func wait(ctx context.Context, d time.Duration) error {
	select {
	case <-time.After(d):
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

// UseNewAccount fills in an e-mail address and a password that nobody has, if there are none.
func (t *Target) UseNewAccount() {
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

// ask is one attempt to call.
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
		return fmt.Errorf("the control plane answers %s: %w", response.Status, err)
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

// sharedInputs are the inputs that are not named after their mutation.
var sharedInputs = map[string]string{"registerEvent": "SiteEventInput", "markKeyEvent": "SiteEventInput"}

// Mutate runs a mutation by the conventions of our schema: one input, and userErrors beside the
// object. selection is what to read of the payload into data, and may be empty.
func (a *Account) Mutate(ctx context.Context, name, selection string, input map[string]any, data any) error {
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

// SignIn signs in, or up if nobody has the address yet.
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
		return fmt.Errorf("neither sign-in nor sign-up succeeds; name an account with --email and --password: %w", err)
	}

	return nil
}

// PrepareSites makes sites for a run, with everything on that the mix needs. What the target does
// not permit is left out, with a sentence in notes.
func (a *Account) PrepareSites(ctx context.Context, n int) ([]Site, Features, error) {
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

		// The name resolves nowhere: deliveries are made and counted, and nobody is bothered.
		set(&f.Conversions, "no deliveries are checked", "setConversionWebhook", map[string]any{"url": "https://receiver.invalid/conversion"})

		if f.OwnEvents {
			set(&f.Conversions, "no deliveries are checked", "markKeyEvent", map[string]any{"name": OwnEvents[0]})
		}

		var rotated struct{ ServerSecret string }
		a.try(ctx, &servers, "nothing is sent to /server.php", "rotateServerSecret", "serverSecret", map[string]any{"siteId": created.Site.ID}, &rotated)
		sites[i].Secret = rotated.ServerSecret
	}

	return sites, f, nil
}

// try runs a mutation that the target may not permit. A failure clears the feature, is noted, and
// spares further attempts.
func (a *Account) try(ctx context.Context, feature *bool, consequence, name, selection string, input map[string]any, data any) {
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

// Usage is what a site has used of its quota.
type Usage struct {
	Period    string // YYYY-MM
	Pageviews int64
}

func (a *Account) Usage(ctx context.Context, siteID string) (Usage, error) {
	var data struct{ Site *struct{ Usage Usage } }
	err := a.call(ctx, `query ($id: ID!) { site(id: $id) { usage { period pageviews } } }`, map[string]any{"id": siteID}, &data)
	if err != nil || data.Site == nil {
		return Usage{}, errors.Join(err, fmt.Errorf("read the usage of site %s", siteID))
	}
	return data.Site.Usage, nil
}

// Deliveries counts a site's deliveries of conversions by their events.
func (a *Account) Deliveries(ctx context.Context, siteID string) (map[string]int64, error) {
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
