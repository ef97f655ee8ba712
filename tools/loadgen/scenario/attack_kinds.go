package scenario

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"net/http"
	"strings"
	"time"

	"github.com/tallygate/tallygate/db"
	"github.com/tallygate/tallygate/db/model"
	"github.com/tallygate/tallygate/db/reports"
	"github.com/tallygate/tallygate/graph/client"
	"github.com/tallygate/tallygate/tools/loadgen/load"
	"github.com/tallygate/tallygate/tools/loadgen/report"
	"github.com/tallygate/tallygate/tools/loadgen/target"
)

// The attacks other than by reports.

// tenant is an account on the FREE plan with a site.
type tenant struct {
	account *target.Account
	site    target.Site
}

// newTenant signs up.
func (p *player) newTenant(ctx context.Context) (*target.Account, error) {
	a, err := target.NewAccount(p.in.Server.Target())
	if err != nil {
		return nil, err
	}
	return a, a.SignIn(ctx)
}

// join signs the attacker up and creates the site.
func (p *player) join(ctx context.Context) (err error) {
	t := new(tenant)
	if t.account, err = p.newTenant(ctx); err != nil {
		return err
	}
	t.site, err = t.account.CreateSite(ctx, "attacker.example")
	p.tenant = t
	return err
}

// exhaust gives the second attacked site a small quota.
func (p *player) exhaust(ctx context.Context) error {
	return p.session.Account.SetPlan(ctx, p.attacked[1].ID, attackQuota)
}

const (
	attackQuota   = 100 // monthly page views of the site with an exhausted quota
	attackWorkers = 64  // connections of an anonymous attacker
)

// visits is the attack of one visitor. Each page view has a new campaign and therefore starts a
// visit. It stands for a client that is limited only by the rules of visits.
func visits(site int, manual bool) func(*player, context.Context, *attackMeasure) error {
	return func(p *player, ctx context.Context, m *attackMeasure) error {
		attacked, x := &p.attacked[site], ""
		if manual {
			x = `"x":1,`
		}

		// On a busy machine the attack lasts until the quota is used up.
		l := load.Load{Addr: p.in.Server.Data, Connections: attackWorkers, Rate: p.AttackRate, Duration: p.Duration, MinAnswers: 2 * attackQuota}
		r := l.Run(ctx, func(connection int) load.Source {
			number := 0
			return load.Requests(func() []byte {
				number++
				body := fmt.Sprintf(`{"k":%q,"t":"pageview","p":"/",%s"u":{"source":"s%d-%d"}}`, attacked.Key, x, connection, number)
				return collectRequest(p.in.Server.Data, attacked.Origin(), "198.51.100.7", body)
			})
		})
		m.got = fmt.Sprintf("%.0f a second: %s", float64(r.Sent())/r.Elapsed.Seconds(), countsText(r.Answers))
		return nil
	}
}

// joinWithSecret signs the attacker up, and prepares the site for events.
func (p *player) joinWithSecret(ctx context.Context) (err error) {
	if err := p.join(ctx); err != nil {
		return err
	}
	if err := p.account.RegisterEvent(ctx, p.site.ID, eventName); err != nil {
		return err
	}
	p.site.Secret, err = p.account.NewServerSecret(ctx, p.site.ID)
	return err
}

const (
	eventConnections = 16
	eventRate        = 900 // a second
)

// runEvents sends events with many properties over /server.php, whatever the answers, and counts
// how many are stored.
func (p *player) runEvents(ctx context.Context, m *attackMeasure) error {
	random := rand.New(rand.NewPCG(3, 33))
	events := &counted{name: recordedAs, request: func(number int) []byte {
		if number > p.Events {
			return nil
		}
		body := fmt.Appendf(nil, `{"event":%q,"ip":"198.51.%d.%d","user_agent":%q,"meta":`, eventName,
			100+number/200%4, 1+number%200, strings.ReplaceAll(attackAgent, "145", fmt.Sprint(100+number%40)))
		body = append(appendProperties(body, random), '}')
		return load.Post(nil, p.in.Server.Data, "/server.php", body, "Authorization: Bearer "+p.site.Secret,
			"X-Forwarded-For: 203.0.113.7", "Content-Type: application/json")
	}}

	l := load.Load{Addr: p.in.Server.Data, Connections: eventConnections, Rate: eventRate}
	l.Run(ctx, func(int) load.Source { return events })
	if p.in.Server.Ended() {
		m.got = events.String()
		return nil
	}
	used, err := p.account.Usage(ctx, p.site.ID)
	m.got = fmt.Sprintf("%d stored: %v", used.Pageviews, events)
	return err
}

// recordedAs returns the status and the reason of an answer of /server.php.
func recordedAs(answer load.Answer) string {
	var reply struct{ Status, Reason string }
	if answer.Status == 200 && json.Unmarshal(answer.Body, &reply) == nil {
		return strings.TrimSpace(reply.Status + " " + reply.Reason)
	}
	return strings.TrimSpace(fmt.Sprint(answer.Status, " ", load.CodeOf(answer.Body)))
}

// storeDay stores a day of the site while the server is stopped, so that the worker builds it
// first.
func (p *player) storeDay(ctx context.Context, _ *attackMeasure) error {
	return p.withServerStopped(ctx, func(d *db.DB) (err error) {
		p.day, err = storeDay(ctx, d, p.site.ID, p.DayEvents)
		return err
	})
}

// awaitBuild waits until the worker has built the day, the process has terminated or the patience
// ends.
func (p *player) awaitBuild(ctx context.Context, m *attackMeasure) error {
	began := time.Now()
	err := p.in.WithDatabase(func(d *db.DB) error {
		id, err := siteOf(ctx, d, p.site.ID)
		if err != nil {
			return err
		}

		for store := reports.New(d); ; _ = load.Wait(ctx, 200*time.Millisecond) {
			views, err := store.DayPageviews(ctx, model.SiteID(id), p.day)
			m.unfinished = views == 0
			if err != nil || views > 0 || p.in.Server.Ended() || time.Since(began) > p.Patience {
				return errors.Join(err, ctx.Err())
			}
		}
	})

	m.got = fmt.Sprintf("%d events built in %.0f s", p.DayEvents, time.Since(began).Seconds())
	if m.unfinished {
		m.got = fmt.Sprintf("%d events not built after %.0f s", p.DayEvents, time.Since(began).Seconds())
	} else {
		p.built = question{name: "breakdowns of yesterday", caller: p.account, site: p.site.ID, period: "YESTERDAY", fields: propertyBreakdowns}
	}
	return err
}

// makeExport makes an export of Umami with as many columns as Umami writes.
func (p *player) makeExport(ctx context.Context) error {
	p.content = umamiExport(p.Import << 20)
	return p.join(ctx)
}

// makeDirectory makes an archive that is only a list of files.
func (p *player) makeDirectory(ctx context.Context) error {
	p.content = listOfFiles(p.Directory << 20)
	return p.join(ctx)
}

// runImport uploads the import, waits for its preview, stores it, and notes how long each took. An
// import that takes too long is canceled.
func (p *player) runImport(ctx context.Context, m *attackMeasure) error {
	began := time.Now()
	job, err := p.account.StartImport(ctx, p.site.ID, "export", p.content)
	if m.got = target.CodeOf(err); err != nil {
		if m.got != "" {
			err = nil
		}
		return err
	}

	deadline := time.Now().Add(p.Patience)
	m.got = fmt.Sprintf("%d MB uploaded in %.0f s", len(p.content)>>20, time.Since(began).Seconds())
	for _, step := range []struct{ name, running string }{{"read", "READING"}, {"stored", "STORING"}} {
		began := time.Now()
		last, err := p.awaitImport(ctx, step.running, deadline)
		took := time.Since(began).Seconds()
		switch {
		case err != nil:
			return err
		case last.State == step.running:
			m.got += fmt.Sprintf(", %.0f %% %s in %.0f s", 100*last.Progress, step.name, took)
			return p.account.CancelImport(ctx, job)
		case last.Error != nil:
			m.got += fmt.Sprintf(", %s after %.0f s", last.Error.Code, took)
			return nil
		}
		m.got += fmt.Sprintf(", %s in %.0f s", step.name, took)

		if last.State == "READY" {
			if err := p.account.ConfirmImport(ctx, job); err != nil {
				return err
			}
		}
	}
	return nil
}

// awaitImport waits until the site's import has left a state, or until the deadline.
func (p *player) awaitImport(ctx context.Context, state string, deadline time.Time) (job target.ImportJob, err error) {
	for {
		job, err = p.account.LatestImport(ctx, p.site.ID)
		if err != nil && !target.IsRateLimited(err) || err == nil && (job.State != state || time.Now().After(deadline)) {
			return job, err
		}
		if err := load.Wait(ctx, 500*time.Millisecond); err != nil {
			return job, err
		}
	}
}

// createToken signs the attacker up, and creates an API token.
func createToken(scope client.ApiTokenScope) func(*player, context.Context) error {
	return func(p *player, ctx context.Context) error {
		if err := p.join(ctx); err != nil {
			return err
		}
		created, err := client.CreateApiToken(ctx, p.account, "attack", []client.ApiTokenScope{scope})
		if err := client.Refused(err, created.CreateApiToken); err != nil {
			return err
		}
		p.token = *created.CreateApiToken.Token
		return nil
	}
}

// createLink signs the attacker up, and creates a shared link.
func (p *player) createLink(ctx context.Context) (err error) {
	if err := p.join(ctx); err != nil {
		return err
	}
	p.token, err = p.newLink(ctx)
	return err
}

// newLink creates a shared link of the attacker's site.
func (t *tenant) newLink(ctx context.Context) (token string, err error) {
	created, err := client.CreateSharedLink(ctx, t.account, t.site.ID, "attack")
	if err := client.Refused(err, created.CreateSharedLink); err != nil {
		return "", err
	}
	return *created.CreateSharedLink.Token, nil
}

// listTools asks for the list of tools for assistants.
func (p *player) listTools(ctx context.Context, m *attackMeasure) error {
	const connections = 8
	caller := &http.Client{Transport: &http.Transport{MaxIdleConnsPerHost: connections}, Timeout: time.Minute}
	defer caller.CloseIdleConnections()
	all := p.flood(ctx, connections, func(ctx context.Context) string { return p.listToolsOnce(ctx, caller) })
	m.got = countsText(all.Counts)
	return nil
}

// listToolsOnce asks once, and returns the outcome.
func (p *player) listToolsOnce(ctx context.Context, caller *http.Client) string {
	request, err := http.NewRequestWithContext(ctx, http.MethodPost, "http://"+p.in.Server.Control+"/mcp",
		strings.NewReader(`{"jsonrpc":"2.0","id":1,"method":"tools/list"}`))
	if err != nil {
		return err.Error()
	}
	request.Header.Set("Authorization", "Bearer "+p.token)
	request.Header.Set("Content-Type", "application/json")

	response, err := caller.Do(request)
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
func (p *player) signUp(ctx context.Context) error {
	p.people = nil
	for range signInUsers {
		one, err := p.newTenant(ctx)
		if err != nil {
			return err
		}
		p.people = append(p.people, one.Target)
	}
	return nil
}

// signIn signs in from many networks, with a right password and for an unknown address in turn.
func (p *player) signIn(ctx context.Context, m *attackMeasure) error {
	const document = "mutation ($email: String!, $password: String!) { signIn(input: {email: $email, password: $password}) { userErrors { code } } }"
	tried := &counted{name: codeIn, request: func(n int) []byte {
		who := p.people[n/2%len(p.people)]
		if n%2 == 0 {
			who.Email = fmt.Sprintf("unknown-%d@loadgen.example", n)
		}
		return post(p.in.Server.Control, document, map[string]string{"email": who.Email, "password": who.Password},
			fmt.Sprintf("X-Forwarded-For: 198.18.%d.1", n%256))
	}}
	l := load.Load{Addr: p.in.Server.Control, Connections: 2 * signInRate, Rate: signInRate, Duration: p.Duration}
	r := l.Run(ctx, func(int) load.Source { return tried })
	m.got = fmt.Sprintf("%v; p50 %.0f ms", tried, report.Milliseconds(r.Latency.Quantile(0.5)))
	return nil
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

// changeSettings sends a request over many connections, regardless of the answers. It contains as
// many changes, each of as many addresses, as the limits of a request and a site permit.
func (p *player) changeSettings(ctx context.Context, m *attackMeasure) error {
	const connections, changes, excluded = 200, 10, 200
	var addresses, query strings.Builder
	for i := range excluded {
		fmt.Fprintf(&addresses, `"10.%d.0.0/16" `, i)
	}
	for i := range changes {
		fmt.Fprintf(&query, ` a%d: updateSite(input: {siteId: %q, excludedAddresses: [%s]}) { site { id } }`,
			i, p.site.ID, addresses.String())
	}
	request := post(p.in.Server.Control, "mutation {"+query.String()+" }", nil, "Authorization: Bearer "+p.token)

	all := &counted{name: codeIn, request: func(int) []byte { return request }}
	l := load.Load{Addr: p.in.Server.Control, Connections: connections, Duration: p.Duration}
	l.Run(ctx, func(int) load.Source { return all })
	m.got = all.String()
	return nil
}
