package scenario

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"strings"
	"sync"
	"time"

	"github.com/tallygate/tallygate/db"
	"github.com/tallygate/tallygate/db/model"
	"github.com/tallygate/tallygate/graph/client"
	"github.com/tallygate/tallygate/tools/loadgen/instance"
	"github.com/tallygate/tallygate/tools/loadgen/load"
	"github.com/tallygate/tallygate/tools/loadgen/report"
	"github.com/tallygate/tallygate/tools/loadgen/target"
)

// neighbourAttack is an attack on an installation by a FREE account with one site.
type neighbourAttack struct {
	*AttackNeighbours
	in     *instance.Instance
	tenant *target.Account
	site   target.Site

	token   string            // API token or token of a shared link
	day     model.Day         // that the worker builds
	content []byte            // of an import
	people  []*target.Account // that sign in
	request []byte            // that changes settings
	asked   questions
}

// neighbourKind is a kind of attack. Its functions run in this order.
type neighbourKind struct {
	prepare func(*neighbourAttack, context.Context) error           // before the first measurement
	restart func(*neighbourAttack, context.Context) error           // just before the attack; may be nil
	attack  func(*neighbourAttack, context.Context) (string, error) // returns what the attacker got
}

var neighbourAttacks = map[string]neighbourKind{
	"reports":    {(*neighbourAttack).sendEvents, nil, (*neighbourAttack).askReports},
	"worker":     {(*neighbourAttack).open, (*neighbourAttack).storeDay, (*neighbourAttack).awaitBuild},
	"import":     {(*neighbourAttack).makeExport, nil, (*neighbourAttack).runImport},
	"directory":  {(*neighbourAttack).makeDirectory, nil, (*neighbourAttack).runImport},
	"tools":      {(*neighbourAttack).createReader, nil, (*neighbourAttack).listTools},
	"tools-link": {(*neighbourAttack).createLink, nil, (*neighbourAttack).listTools},
	"sign-in":    {(*neighbourAttack).signUp, nil, (*neighbourAttack).signIn},
	"settings":   {(*neighbourAttack).makeRequest, nil, (*neighbourAttack).changeSettings},
}

// open signs the attacker up and creates the site.
func (a *neighbourAttack) open(ctx context.Context) (err error) {
	if a.tenant, err = newTenant(ctx, a.in.Server); err != nil {
		return err
	}
	a.site, err = a.tenant.CreateSite(ctx, "attacker.example")
	return err
}

// flood repeats a call over connections for the duration of an attack, and returns the outcomes
// with their numbers. A refused caller waits a little, because its own work would count as the
// server's.
func (a *neighbourAttack) flood(ctx context.Context, connections int, call func(context.Context) string) string {
	flooding, stop := context.WithTimeout(ctx, a.Duration)
	defer stop()

	var all sync.WaitGroup
	var mu sync.Mutex
	outcomes := make(map[string]int64)
	for range connections {
		all.Go(func() {
			for flooding.Err() == nil {
				// The last calls end, too, because their work slows hits.
				outcome := call(ctx)
				mu.Lock()
				outcomes[outcome]++
				mu.Unlock()
				if outcome != outcomeAnswered {
					_ = load.Wait(flooding, 100*time.Millisecond)
				}
			}
		})
	}
	all.Wait()
	return countsText(outcomes)
}

// The connections of the attacker, and its rate of events.
const (
	reportConnections   = 10
	toolConnections     = 8
	settingsConnections = 200
	neighbourEventRate  = 900
)

// sendEvents stores events with many properties.
func (a *neighbourAttack) sendEvents(ctx context.Context) (err error) {
	if err := a.open(ctx); err != nil {
		return err
	}
	if err := a.tenant.RegisterEvent(ctx, a.site.ID, eventName); err != nil {
		return err
	}
	if a.site.Secret, err = a.tenant.NewServerSecret(ctx, a.site.ID); err != nil {
		return err
	}

	answers := sendEvents(ctx, a.in.Server.Data, a.site.Secret, a.Events, neighbourEventRate)
	if want := fmt.Sprintf("%d recorded", a.Events); answers != want {
		return fmt.Errorf("events of the attacker: %s, want %s", answers, want)
	}
	return ctx.Err()
}

// tenBreakdowns are ten breakdowns by property.
var tenBreakdowns = func() string {
	var b strings.Builder
	for i := range 10 {
		fmt.Fprintf(&b, "p%d: breakdown(by: PROPERTY, property: %q, first: 10) { totalCount } ", i, propertyName(i))
	}
	return b.String()
}()

// askReports asks for breakdowns by property with a filter that is new each time.
func (a *neighbourAttack) askReports(ctx context.Context) (string, error) {
	return a.flood(ctx, reportConnections, func(ctx context.Context) string {
		document := fmt.Sprintf(`{ site(id: %q) { report(period: {preset: TODAY}, filters: [{dimension: PAGE, operator: IS_NOT, values: ["/%s"]}]) { %s } } }`,
			a.site.ID, a.asked.unknown(), tenBreakdowns)
		var data json.RawMessage
		if err := a.tenant.Ask(ctx, document, nil, &data); err != nil {
			return reasonOf(err)
		}
		return outcomeAnswered
	}), nil
}

// storeDay stores a day of the site while the server is stopped, so that the worker builds it
// first.
func (a *neighbourAttack) storeDay(ctx context.Context) error {
	if err := a.in.Server.Stop(); err != nil {
		return err
	}
	if err := a.in.WithDatabase(func(d *db.DB) (err error) {
		a.day, err = storeDay(ctx, d, a.site.ID, a.DayEvents)
		return err
	}); err != nil {
		return err
	}
	return a.in.Server.Start(ctx)
}

// awaitBuild waits for the worker's build.
func (a *neighbourAttack) awaitBuild(ctx context.Context) (string, error) {
	began := time.Now()
	built, err := awaitDay(ctx, a.in, a.site.ID, a.day, a.Patience)
	if !built {
		return fmt.Sprintf("%d events not built after %v", a.DayEvents, a.Patience), err
	}
	return fmt.Sprintf("%d events built in %.0f s", a.DayEvents, time.Since(began).Seconds()), err
}

// createReader creates an API token that reads.
func (a *neighbourAttack) createReader(ctx context.Context) error {
	return a.createToken(ctx, client.ApiTokenScopeRead)
}

// createToken creates an API token.
func (a *neighbourAttack) createToken(ctx context.Context, scope client.ApiTokenScope) error {
	if err := a.open(ctx); err != nil {
		return err
	}
	created, err := client.CreateApiToken(ctx, a.tenant, "attack", []client.ApiTokenScope{scope})
	if err := client.Refused(err, created.CreateApiToken); err != nil {
		return err
	}
	a.token = *created.CreateApiToken.Token
	return nil
}

// createLink creates a shared link.
func (a *neighbourAttack) createLink(ctx context.Context) (err error) {
	if err := a.open(ctx); err != nil {
		return err
	}
	a.token, err = newLink(ctx, a.tenant, a.site.ID)
	return err
}

// listTools asks for the list of tools for assistants.
func (a *neighbourAttack) listTools(ctx context.Context) (string, error) {
	connections := &http.Client{Transport: &http.Transport{MaxIdleConnsPerHost: toolConnections}, Timeout: time.Minute}
	defer connections.CloseIdleConnections()
	return a.flood(ctx, toolConnections, func(ctx context.Context) string {
		return listTools(ctx, connections, a.in.Server.Control, a.token)
	}), nil
}

// listTools asks once, and returns the outcome.
func listTools(ctx context.Context, connections *http.Client, host, token string) string {
	request, err := http.NewRequestWithContext(ctx, http.MethodPost, "http://"+host+"/mcp",
		strings.NewReader(`{"jsonrpc":"2.0","id":1,"method":"tools/list"}`))
	if err != nil {
		return err.Error()
	}
	request.Header.Set("Authorization", "Bearer "+token)
	request.Header.Set("Content-Type", "application/json")

	response, err := connections.Do(request)
	if err != nil {
		return outcomeNone
	}
	defer response.Body.Close()
	body, err := io.ReadAll(response.Body)
	switch {
	case err != nil:
		return outcomeNone
	case response.StatusCode == http.StatusOK && bytes.Contains(body, []byte(`"tools":[{`)):
		return outcomeAnswered
	}
	return fmt.Sprintf("%d %.40s", response.StatusCode, body)
}

const (
	signInRate  = 20 // a second
	signInUsers = 4
)

// signUp signs up users with a password.
func (a *neighbourAttack) signUp(ctx context.Context) error {
	for range signInUsers {
		one, err := newTenant(ctx, a.in.Server)
		if err != nil {
			return err
		}
		a.people = append(a.people, one)
	}
	return nil
}

// signIn signs in from many networks, with a right password and for an unknown address in turn.
func (a *neighbourAttack) signIn(ctx context.Context) (string, error) {
	attempts := &counted{name: codeIn, request: func(n int) []byte {
		who := a.people[n/2%len(a.people)].Target
		if n%2 == 0 {
			who.Email = fmt.Sprintf("unknown-%d@loadgen.example", n)
		}
		return signInRequest(a.in.Server.Control, who, fmt.Sprintf("198.18.%d.1", n%256))
	}}
	l := load.Load{Addr: a.in.Server.Control, Connections: 2 * signInRate, Rate: signInRate, Duration: a.Duration}
	r := l.Run(ctx, func(int) load.Source { return attempts })
	return fmt.Sprintf("%v; p50 %.0f ms", attempts, report.Milliseconds(r.Latency.Quantile(0.5))), nil
}

// signInRequest returns a sign-in as a browser behind a proxy sends it.
func signInRequest(host string, who target.Target, addr string) []byte {
	return post(host, "mutation ($email: String!, $password: String!) { signIn(input: {email: $email, password: $password}) { userErrors { code } } }",
		map[string]string{"email": who.Email, "password": who.Password}, "X-Forwarded-For: "+addr)
}

// post returns a GraphQL request with a further header.
func post(host, query string, variables map[string]string, header string) []byte {
	body, err := json.Marshal(map[string]any{"query": query, "variables": variables})
	if err != nil {
		// Texts can be encoded.
		panic(err)
	}
	return load.Post(nil, host, "/graphql", body, "Content-Type: application/json", header)
}

// codeIn returns the first code of a GraphQL answer, or outcomeAnswered without one.
func codeIn(answer load.Answer) string {
	_, rest, ok := bytes.Cut(answer.Body, []byte(`"code":"`))
	if !ok && answer.Status == http.StatusOK {
		return outcomeAnswered
	}
	code, _, _ := bytes.Cut(rest, []byte(`"`))
	return strings.TrimSpace(fmt.Sprint(answer.Status, " ", string(code)))
}

// A request contains as many changes, each of as many addresses, as the limits of a request and a
// site permit.
const (
	attackChanges   = 10
	attackAddresses = 200
)

// makeRequest makes the request that changes settings, authorized by an API token.
func (a *neighbourAttack) makeRequest(ctx context.Context) error {
	if err := a.createToken(ctx, client.ApiTokenScopeWrite); err != nil {
		return err
	}

	var addresses, query strings.Builder
	for i := range attackAddresses {
		fmt.Fprintf(&addresses, `"10.%d.0.0/16" `, i)
	}
	query.WriteString("mutation {")
	for i := range attackChanges {
		fmt.Fprintf(&query, ` a%d: updateSite(input: {siteId: %q, excludedAddresses: [%s]}) { site { id } }`,
			i, a.site.ID, addresses.String())
	}
	query.WriteString(" }")
	a.request = post(a.in.Server.Control, query.String(), nil, "Authorization: Bearer "+a.token)
	return nil
}

// changeSettings sends the request over many connections, regardless of the answers.
func (a *neighbourAttack) changeSettings(ctx context.Context) (string, error) {
	all := &counted{name: codeIn, request: func(int) []byte { return a.request }}
	l := load.Load{Addr: a.in.Server.Control, Connections: settingsConnections, Duration: a.Duration}
	l.Run(ctx, func(int) load.Source { return all })
	return all.String(), nil
}
