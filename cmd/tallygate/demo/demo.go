// Package demo is a website that uses everything Tallygate offers: the script, a purchase, the
// conversion webhook and a form with a captcha. Command tallygate serves it next to the service.
// Its owner signs in, creates the site and downloads rows through the public interfaces.
package demo

import (
	"bytes"
	"context"
	"crypto/rand"
	"encoding/json"
	"errors"
	"fmt"
	"html/template"
	"io/fs"
	"net/http"
	"net/http/cookiejar"
	"os"
	"path/filepath"
	"time"

	"github.com/tallygate/tallygate/db"
)

// The demo site's domain and its owner's address. Browsers resolve every name under localhost to
// this machine.
const (
	Domain = "demo.localhost"
	Email  = "owner@demo.example"
)

// ownerFile is the name of the file in the data folder that keeps the owner's password.
const ownerFile = "demo-owner.json"

// Options describe the running service.
type Options struct {
	DB       *db.DB
	DataDir  string           // where the owner's password is kept between runs
	Control  string           // origin at which the control plane listens
	Data     string           // origin at which the data plane listens
	Webhooks *WebhookReceiver // of the demo shop

	BaseURL, AnalyticsURL, CaptchaURL string // public origins
}

// Demo is the demo website and its owner, a client of the control plane like any other.
type Demo struct {
	options Options
	owner   Owner
	siteID  string
	siteKey string
	tag     template.HTML // the script tag

	form   *contactForm
	client *http.Client
}

// Owner is the demo's user, whose password is kept in the data folder between runs.
type Owner struct {
	Email    string `json:"email"`
	Password string `json:"password"`
}

// New signs the owner in, or up on the first run, and sets up the site with its webhook and the
// form.
func New(ctx context.Context, o Options) (*Demo, error) {
	jar, err := cookiejar.New(nil)
	if err != nil {
		return nil, err
	}

	d := &Demo{options: o, client: &http.Client{Jar: jar, Timeout: 10 * time.Second}}
	if d.owner, err = ReadOrCreateOwner(o.DataDir); err != nil {
		return nil, err
	}
	if err := d.authenticate(ctx); err != nil {
		return nil, err
	}
	if err := d.findOrCreateSite(ctx); err != nil {
		return nil, err
	}
	if err := o.Webhooks.sendConversions(ctx, o.DB, d.owner.Email, d.siteKey); err != nil {
		return nil, fmt.Errorf("webhook: %w", err)
	}

	sitekey, secret, err := prepareSitekey(ctx, o.DB, d.owner.Email)
	if err != nil {
		return nil, fmt.Errorf("form: %w", err)
	}

	d.form = newContactForm(o.CaptchaURL, o.Data, sitekey.Sitekey, secret)

	if err := d.prepareReports(ctx, sitekey); err != nil {
		return nil, fmt.Errorf("history: %w", err)
	}
	return d, nil
}

// ReadOrCreateOwner returns the owner whose password is in a data folder. On the first run it stores a
// new password there.
func ReadOrCreateOwner(dataDir string) (Owner, error) {
	path := filepath.Join(dataDir, ownerFile)
	text, err := os.ReadFile(path)
	if errors.Is(err, fs.ErrNotExist) {
		o := Owner{Email: Email, Password: rand.Text()}
		text, err = json.Marshal(o)
		if err != nil {
			return o, err
		}

		return o, errors.Join(os.MkdirAll(filepath.Dir(path), 0o700), os.WriteFile(path, text, 0o600))
	}

	if err != nil {
		return Owner{}, err
	}

	var o Owner
	return o, json.Unmarshal(text, &o)
}

// authenticate signs in, or signs up on the first run.
func (d *Demo) authenticate(ctx context.Context) error {
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
		if last = d.query(ctx, mutation, map[string]any{"email": d.owner.Email, "password": d.owner.Password},
			&data); last != nil {
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

func (d *Demo) findOrCreateSite(ctx context.Context) error {
	type site struct{ ID, SiteKey, Domain, ScriptTag string }

	var found struct {
		Sites struct{ Edges []struct{ Node site } }
	}
	if err := d.query(ctx, `{ sites(first: 100) { edges { node { id siteKey domain scriptTag } } } }`, nil,
		&found); err != nil {
		return err
	}

	for _, edge := range found.Sites.Edges {
		if edge.Node.Domain == Domain {
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
		map[string]any{"domain": Domain}, &created)
	if err != nil {
		return err
	}

	if s := created.CreateSite.Site; s != nil {
		d.siteID, d.siteKey, d.tag = s.ID, s.SiteKey, template.HTML(s.ScriptTag)
		return nil
	}

	return fmt.Errorf("create the demo site: %v", created.CreateSite.UserErrors)
}

// query posts a GraphQL query with the owner's session and decodes its data.
func (d *Demo) query(ctx context.Context, query string, variables map[string]any, data any) error {
	body, err := json.Marshal(map[string]any{"query": query, "variables": variables})
	if err != nil {
		return err
	}

	request, err := http.NewRequestWithContext(ctx, http.MethodPost, d.options.Control+"/graphql",
		bytes.NewReader(body))
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
		return fmt.Errorf("GraphQL responded %s: %w", response.Status, err)
	}
	if len(answer.Errors) > 0 {
		return fmt.Errorf("GraphQL error: %s", answer.Errors[0].Message)
	}

	return nil
}
