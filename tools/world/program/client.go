package program

import (
	"bytes"
	"encoding/json"
	"net/http"
	"net/http/cookiejar"
	"testing"

	"github.com/tallygate/tallygate/tools/testkit"
)

// Client calls the GraphQL API with the session of its earlier calls. Each mutation must succeed.
type Client struct {
	TB     testing.TB
	Origin string // of the control plane
	HTTP   *http.Client
}

// Client returns a client of the process without a session.
func (p *Process) Client() *Client {
	p.TB.Helper()
	jar, err := cookiejar.New(nil)
	testkit.NoError(p.TB, err)
	return &Client{TB: p.TB, Origin: "http://" + p.Addr["control"], HTTP: &http.Client{Jar: jar, Timeout: Patience}}
}

// Do runs an operation and decodes its data, unless data is nil. Errors fail the test, userErrors
// do not.
func (c *Client) Do(query string, variables map[string]any, data any) {
	c.TB.Helper()

	body, err := json.Marshal(map[string]any{"query": query, "variables": variables})
	testkit.NoError(c.TB, err)

	response, err := c.HTTP.Post(c.Origin+"/graphql", "application/json", bytes.NewReader(body))
	testkit.NoError(c.TB, err)
	defer response.Body.Close()

	var answer struct {
		Data   json.RawMessage
		Errors []any
	}
	if err := json.NewDecoder(response.Body).Decode(&answer); err != nil || len(answer.Errors) > 0 {
		c.TB.Fatalf("%s: %s, errors %v, %v", query, response.Status, answer.Errors, err)
	}
	if data == nil {
		return
	}
	if err := json.Unmarshal(answer.Data, data); err != nil {
		c.TB.Fatalf("%s: data %s: %v", query, answer.Data, err)
	}
}

// mutate runs a mutation with an input and the selection of its payload, and decodes the payload,
// unless it is nil. userErrors fail the test.
func (c *Client) mutate(name, inputType, selection string, input map[string]any, payload any) {
	c.TB.Helper()

	var data map[string]json.RawMessage
	c.Do("mutation ($input: "+inputType+"!) { "+name+"(input: $input) { "+selection+" userErrors { field code message } } }",
		map[string]any{"input": input}, &data)

	var refused struct{ UserErrors []any }
	if err := json.Unmarshal(data[name], &refused); err != nil || len(refused.UserErrors) > 0 {
		c.TB.Fatalf("%s: %s, %v", name, data[name], err)
	}
	if payload == nil {
		return
	}
	if err := json.Unmarshal(data[name], payload); err != nil {
		c.TB.Fatalf("%s: %s: %v", name, data[name], err)
	}
}

// SignUp creates a user with an account, on an installation that sends no mail for it.
func (c *Client) SignUp(email, password, account string) {
	c.TB.Helper()
	var payload struct{ Viewer *struct{ Email string } }
	c.mutate("signUp", "SignUpInput", "viewer { email }",
		map[string]any{"email": email, "password": password, "accountName": account}, &payload)
	if payload.Viewer == nil || payload.Viewer.Email != email {
		c.TB.Fatalf("signUp: viewer %+v, want %s", payload.Viewer, email)
	}
}

// SignIn starts a session of a user without a second factor.
func (c *Client) SignIn(email, password string) {
	c.TB.Helper()
	var payload struct{ Viewer *struct{ Email string } }
	c.mutate("signIn", "SignInInput", "viewer { email }", map[string]any{"email": email, "password": password}, &payload)
	if payload.Viewer == nil {
		c.TB.Fatal("signIn: no viewer")
	}
}

// Site is a site of the API.
type Site struct{ ID, SiteKey, ScriptTag string }

// CreateSite creates a site. The name "" stands for the domain.
func (c *Client) CreateSite(domain, name string) Site {
	c.TB.Helper()
	input := map[string]any{"domain": domain}
	if name != "" {
		input["name"] = name
	}

	var payload struct{ Site Site }
	c.mutate("createSite", "CreateSiteInput", "site { id siteKey scriptTag }", input, &payload)
	return payload.Site
}

// UpdateSite changes settings of a site, by the names of the input's fields.
func (c *Client) UpdateSite(siteID string, settings map[string]any) {
	c.TB.Helper()
	input := map[string]any{"siteId": siteID}
	for name, value := range settings {
		input[name] = value
	}
	c.mutate("updateSite", "UpdateSiteInput", "", input, nil)
}

// RegisterEvent registers a custom event of a site.
func (c *Client) RegisterEvent(siteID, name string) {
	c.TB.Helper()
	c.mutate("registerEvent", "SiteEventInput", "", map[string]any{"siteId": siteID, "name": name}, nil)
}

// RotateServerSecret returns a new server secret of a site.
func (c *Client) RotateServerSecret(siteID string) string {
	c.TB.Helper()
	var payload struct{ ServerSecret string }
	c.mutate("rotateServerSecret", "RotateServerSecretInput", "serverSecret", map[string]any{"siteId": siteID}, &payload)
	return payload.ServerSecret
}

// InviteMember invites an address to the account, with a role such as "VIEWER".
func (c *Client) InviteMember(email, role string) {
	c.TB.Helper()
	c.mutate("inviteMember", "InviteMemberInput", "", map[string]any{"email": email, "role": role}, nil)
}
