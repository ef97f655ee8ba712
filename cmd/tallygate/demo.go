package main

import (
	"bytes"
	"context"
	"crypto/rand"
	"embed"
	"encoding/json"
	"errors"
	"fmt"
	"html/template"
	"io"
	"io/fs"
	"net"
	"net/http"
	"net/http/cookiejar"
	"net/url"
	"os"
	"path/filepath"
	"time"

	"github.com/tallygate/tallygate/graph/export"
)

// demoCommand is serve with an owner, a site and a website to play with. The website is served on a listener of its own,
// as the owner's would be, and everything about the owner goes through the public interfaces.
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
	app, err := open(ctx, &c.Config, log)
	if err != nil {
		return err
	}
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	ended := make(chan error, 1)
	go func() { ended <- app.run(ctx) }()

	d := demo{control: "http://" + app.control.listener.Addr().String(), scripts: string(c.AnalyticsURL)}
	if err := d.prepare(ctx, c.DataDir); err != nil {
		cancel()
		return errors.Join(fmt.Errorf("prepare the demo: %w", err), <-ended)
	}
	sitekey, secret, err := demoSitekey(ctx, app.db, d.owner.Email)
	if err != nil {
		cancel()
		return errors.Join(fmt.Errorf("prepare the demo's form: %w", err), <-ended)
	}
	d.form = newContactForm(string(c.CaptchaURL), "http://"+app.data.listener.Addr().String(), sitekey, secret)
	server := &http.Server{Handler: d.website(), ReadHeaderTimeout: readHeaderTimeout, ReadTimeout: readTimeout, WriteTimeout: writeTimeout}
	go func() {
		if err := server.Serve(website); !errors.Is(err, http.ErrServerClosed) {
			log.Error("demo website", "error", err)
		}
	}()
	defer server.Close()
	_, port, _ := net.SplitHostPort(website.Addr().String())
	log.Info("listening", "role", "demo", "addr", website.Addr().String(), "url", "http://"+demoDomain+":"+port)
	d.greet(term.out, port, string(c.BaseURL))
	return <-ended
}

// demo is the owner of the demo site: a client of the control plane like any other.
type demo struct {
	control string // where the control plane listens
	scripts string // {analytics_url}
	owner   owner
	siteID  string
	siteKey string
	tag     template.HTML
	form    *contactForm

	client *http.Client
}

// owner is what the data folder remembers between two runs of the demo.
type owner struct {
	Email    string `json:"email"`
	Password string `json:"password"`
}

func (d *demo) prepare(ctx context.Context, dataDir string) error {
	jar, err := cookiejar.New(nil)
	if err != nil {
		return err
	}
	d.client = &http.Client{Jar: jar, Timeout: 10 * time.Second}
	if d.owner, err = readOrMakeOwner(filepath.Join(dataDir, demoOwnerFile)); err != nil {
		return err
	}
	if err := d.authenticate(ctx); err != nil {
		return err
	}
	return d.findOrCreateSite(ctx)
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

// latest downloads today's page views after the cursor that the page has, as the owner would, and hands the JSON on.
func (d *demo) latest(w http.ResponseWriter, r *http.Request) {
	cursor := r.URL.Query().Get("cursor")
	response, err := d.download(r.Context(), cursor)
	if err == nil && response.StatusCode == http.StatusUnauthorized { // the session ran out
		response.Body.Close()
		if err = d.authenticate(r.Context()); err == nil {
			response, err = d.download(r.Context(), cursor)
		}
	}
	if err != nil {
		http.Error(w, err.Error(), http.StatusBadGateway)
		return
	}
	defer response.Body.Close()
	w.Header().Set("Content-Type", "application/json")
	w.Header().Set("Cache-Control", "no-store")
	w.WriteHeader(response.StatusCode)
	_, _ = io.Copy(w, response.Body) // the page asks again in a second
}

func (d *demo) download(ctx context.Context, cursor string) (*http.Response, error) {
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, d.control+d.exportPath("json", cursor), nil)
	if err != nil {
		return nil, err
	}
	return d.client.Do(request)
}

// exportPath is the download of today's page views.
func (d *demo) exportPath(format, cursor string) string {
	today := time.Now().UTC().Format(time.DateOnly)
	query := url.Values{"site_id": {d.siteID}, "type": {"pageviews"}, "from": {today}, "to": {today}, "format": {format}}
	if cursor != "" {
		query.Set("cursor", cursor)
	}
	return export.Path + "?" + query.Encode()
}

//go:embed demo
var demoFiles embed.FS

var demoPage = template.Must(template.ParseFS(demoFiles, "demo/page.html"))

// website is the demo shop: a few pages with the script on them, the list of what was stored, and a form that the captcha
// protects.
func (d *demo) website() http.Handler {
	mux := http.NewServeMux()
	mux.Handle("GET /demo/", http.FileServerFS(demoFiles))
	mux.HandleFunc("GET /demo/latest.json", d.latest)
	for path, title := range map[string]string{"/{$}": "Home", "/shop": "Shop", "/shop/kettle": "A kettle", "/about": "About us"} {
		mux.HandleFunc("GET "+path, func(w http.ResponseWriter, _ *http.Request) { d.page(w, map[string]any{"Title": title}) })
	}
	mux.HandleFunc("GET /contact", func(w http.ResponseWriter, _ *http.Request) {
		d.page(w, map[string]any{"Title": "Contact", "Form": d.form})
	})
	mux.HandleFunc("POST /contact", func(w http.ResponseWriter, r *http.Request) {
		r.Body = http.MaxBytesReader(w, r.Body, 64<<10)
		if err := r.ParseForm(); err != nil {
			http.Error(w, "the form cannot be read", http.StatusBadRequest)
			return
		}
		d.page(w, map[string]any{"Title": "Contact", "Form": d.form, "Result": d.form.receive(r.Context(), r.PostForm)})
	})
	return mux
}

// page writes a page of the shop.
func (d *demo) page(w http.ResponseWriter, content map[string]any) {
	content["Tag"] = d.tag
	header := w.Header()
	header.Set("Content-Type", "text/html; charset=utf-8")
	header.Set("Content-Security-Policy", policy(d.scripts, d.form.Captcha))
	header.Set("Cache-Control", "no-cache")
	_ = demoPage.Execute(w, content) // the reader may have left
}

func (d *demo) greet(w io.Writer, port, baseURL string) {
	shop := "http://" + demoDomain + ":" + port
	fmt.Fprintf(w, `
Tallygate's demo is running. Press Ctrl+C to stop it.

  Demo shop   %[1]s/
  Form        %[1]s/contact
  GraphQL     %[2]s/graphql
  Sign-in     %[3]s  %[4]s
  Site key    %[5]s
  Site id     %[6]s
  Sitekey     %[8]s

Four things to try next:

  1. Open the demo shop and click around: every page view appears in the list on the page once it is stored.
  2. Arrive by a campaign, and a new visit with its own channel starts:
     %[1]s/shop?utm_source=newsletter&utm_medium=email&utm_campaign=spring
  3. Send the form: the captcha solves itself while you type, and the shop's server checks the token with its secret.
     Send it again by reloading, and the same token is refused.
  4. Sign in and download the rows:
     curl -c jar -H 'Content-Type: application/json' %[2]s/graphql --data \
       '{"query":"mutation { signIn(input: {email: \"%[3]s\", password: \"%[4]s\"}) { viewer { email } userErrors { message } } }"}'
     curl -b jar '%[2]s%[7]s'

`, shop, baseURL, d.owner.Email, d.owner.Password, d.siteKey, d.siteID, d.exportPath("csv", ""), d.form.Sitekey)
}
