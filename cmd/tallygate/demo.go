package main

import (
	"bytes"
	"context"
	"crypto/rand"
	"encoding/json"
	"errors"
	"fmt"
	"html/template"
	"io/fs"
	"net"
	"net/http"
	"net/http/cookiejar"
	"os"
	"path/filepath"
	"time"
)

// demoCommand is serve with an owner, a site and a website to play with. The website is served on a
// listener of its own, as the owner's would be. The owner signs in, makes the site and downloads
// rows through the public interfaces.
type demoCommand struct {
	Config   `embed:""`
	DemoAddr Address `env:"TALLYGATE_DEMO_ADDR" default:"127.0.0.1:8082" placeholder:"HOST:PORT" help:"Where the demo website listens. Port 0 picks a free one."`
}

const (
	demoDataDir = "./tallygate-demo" // so that nothing of the demo ends up beside real data
	demoDomain  = "demo.localhost"   // browsers take every name under localhost to this machine
	demoEmail   = "owner@demo.example"

	demoOwnerFile = "demo-owner.json" // in the data folder
)

// AfterApply gives the demo its own data folder, unless one was asked for.
func (c *demoCommand) AfterApply() error {
	if c.DataDir == "./tallygate-data" {
		c.DataDir = demoDataDir
	}
	return nil
}

// Run serves until ctx ends.
func (c *demoCommand) Run(ctx context.Context, term terminal) error {
	c.AllowLocalDomains = true
	c.Roles = []Role{RoleControl, RoleData, RoleWorker}
	log := logger(&c.Config, term.log)

	website, err := net.Listen("tcp", string(c.DemoAddr))
	if err != nil {
		return fmt.Errorf("--demo-addr: %w", err)
	}
	defer website.Close()

	webhooks, err := listenForWebhooks(&c.Config)
	if err != nil {
		return fmt.Errorf("prepare the demo's webhook receiver: %w", err)
	}
	defer webhooks.listener.Close()

	app, err := open(ctx, &c.Config, log)
	if err != nil {
		return err
	}

	ctx, cancel := context.WithCancel(ctx)
	defer cancel()

	ended := make(chan error, 1)
	go func() { ended <- app.run(ctx) }()

	d := demo{webhooks: webhooks}
	if err := d.prepare(ctx, app); err != nil {
		cancel()
		return errors.Join(fmt.Errorf("prepare the demo: %w", err), <-ended)
	}

	shop := &http.Server{Handler: d.website(), ReadHeaderTimeout: readHeaderTimeout, ReadTimeout: readTimeout, WriteTimeout: writeTimeout}
	backend := webhooks.server()
	for server, listener := range map[*http.Server]net.Listener{shop: website, backend: webhooks.listener} {
		go func() {
			if err := server.Serve(listener); !errors.Is(err, http.ErrServerClosed) {
				log.Error("demo website", "error", err)
			}
		}()
		defer server.Close()
	}

	_, port, _ := net.SplitHostPort(website.Addr().String())
	log.Info("listening", "role", "demo", "addr", website.Addr().String(), "url", "http://"+demoDomain+":"+port)
	d.greet(term.out, port)

	return <-ended
}

// demo is the owner of the demo site: a client of the control plane like any other.
type demo struct {
	control string // where the control plane listens
	baseURL string // {base_url}
	scripts string // {analytics_url}
	owner   owner
	siteID  string
	siteKey string
	tag     template.HTML

	form     *contactForm
	webhooks *webhookReceiver

	client *http.Client
}

// owner is what the data folder remembers between two runs of the demo.
type owner struct {
	Email    string `json:"email"`
	Password string `json:"password"`
}

// prepare signs the owner in, or up on the first run, and sees to it that there is the site with
// its webhook, and the form.
func (d *demo) prepare(ctx context.Context, a *app) error {
	jar, err := cookiejar.New(nil)
	if err != nil {
		return err
	}

	d.control, d.baseURL, d.scripts = "http://"+a.control.listener.Addr().String(), string(a.config.BaseURL), string(a.config.AnalyticsURL)
	d.client = &http.Client{Jar: jar, Timeout: 10 * time.Second}
	if d.owner, err = readOrMakeOwner(filepath.Join(a.config.DataDir, demoOwnerFile)); err != nil {
		return err
	}
	if err := d.authenticate(ctx); err != nil {
		return err
	}
	if err := d.findOrCreateSite(ctx); err != nil {
		return err
	}
	if err := d.webhooks.sendConversions(ctx, a.db, d.owner.Email, d.siteKey); err != nil {
		return fmt.Errorf("webhook: %w", err)
	}

	sitekey, secret, err := demoSitekey(ctx, a.db, d.owner.Email)
	if err != nil {
		return fmt.Errorf("form: %w", err)
	}

	d.form = newContactForm(string(a.config.CaptchaURL), "http://"+a.data.listener.Addr().String(), sitekey, secret)
	return nil
}

func readOrMakeOwner(path string) (owner, error) {
	text, err := os.ReadFile(path)
	if errors.Is(err, fs.ErrNotExist) {
		o := owner{Email: demoEmail, Password: rand.Text()}
		text, err = json.Marshal(o)
		if err != nil {
			return o, err
		}

		return o, errors.Join(os.MkdirAll(filepath.Dir(path), 0o700), os.WriteFile(path, text, 0o600))
	}

	if err != nil {
		return owner{}, err
	}

	var o owner
	return o, json.Unmarshal(text, &o)
}

// authenticate signs in, or up on the first run.
func (d *demo) authenticate(ctx context.Context) error {
	signIn := `mutation ($email: String!, $password: String!) {
		signIn(input: {email: $email, password: $password}) { viewer { id } userErrors { code message } } }`

	signUp := `mutation ($email: String!, $password: String!) {
		signUp(input: {email: $email, password: $password, accountName: "Demo"}) { viewer { id } userErrors { code message } } }`

	var last error
	for _, mutation := range []string{signIn, signUp} {
		var data map[string]struct {
			Viewer     *struct{ ID string }
			UserErrors []struct{ Code, Message string }
		}
		if last = d.query(ctx, mutation, map[string]any{"email": d.owner.Email, "password": d.owner.Password}, &data); last != nil {
			continue
		}

		for _, payload := range data {
			if payload.Viewer != nil {
				return nil
			}

			last = fmt.Errorf("sign in: %v", payload.UserErrors)
		}
	}

	return last
}

func (d *demo) findOrCreateSite(ctx context.Context) error {
	type site struct{ ID, SiteKey, Domain, ScriptTag string }

	var found struct {
		Sites struct{ Edges []struct{ Node site } }
	}
	if err := d.query(ctx, `{ sites(first: 100) { edges { node { id siteKey domain scriptTag } } } }`, nil, &found); err != nil {
		return err
	}

	for _, edge := range found.Sites.Edges {
		if edge.Node.Domain == demoDomain {
			d.siteID, d.siteKey, d.tag = edge.Node.ID, edge.Node.SiteKey, template.HTML(edge.Node.ScriptTag)
			return nil
		}
	}

	var created struct {
		CreateSite struct {
			Site       *site
			UserErrors []struct{ Code, Message string }
		}
	}

	err := d.query(ctx, `mutation ($domain: String!) {
		createSite(input: {domain: $domain, name: "Demo shop"}) { site { id siteKey domain scriptTag } userErrors { code message } } }`,
		map[string]any{"domain": demoDomain}, &created)
	if err != nil {
		return err
	}

	if s := created.CreateSite.Site; s != nil {
		d.siteID, d.siteKey, d.tag = s.ID, s.SiteKey, template.HTML(s.ScriptTag)
		return nil
	}

	return fmt.Errorf("create the demo site: %v", created.CreateSite.UserErrors)
}

// query posts a GraphQL query with the owner's session and reads its data.
func (d *demo) query(ctx context.Context, query string, variables map[string]any, data any) error {
	body, err := json.Marshal(map[string]any{"query": query, "variables": variables})
	if err != nil {
		return err
	}

	request, err := http.NewRequestWithContext(ctx, http.MethodPost, d.control+"/graphql", bytes.NewReader(body))
	if err != nil {
		return err
	}

	request.Header.Set("Content-Type", "application/json")
	response, err := d.client.Do(request)
	if err != nil {
		return err
	}
	defer response.Body.Close()

	answer := struct {
		Data   any
		Errors []struct{ Message string }
	}{Data: data}
	if err := json.NewDecoder(response.Body).Decode(&answer); err != nil {
		return fmt.Errorf("GraphQL answered %s: %w", response.Status, err)
	}
	if len(answer.Errors) > 0 {
		return fmt.Errorf("GraphQL answered %s", answer.Errors[0].Message)
	}

	return nil
}
