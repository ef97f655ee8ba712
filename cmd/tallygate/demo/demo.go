// Package demo is a website that uses everything Tallygate offers: the script, a purchase, the
// conversion webhook and a form with a captcha. Command tallygate serves it next to the service.
// Its owner signs in, creates the site and downloads rows through the public interfaces.
package demo

import (
	"context"
	"crypto/rand"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"net/http"
	"net/http/cookiejar"
	"os"
	"path/filepath"
	"time"

	"github.com/Khan/genqlient/graphql"

	"github.com/tallygate/tallygate/cmd/tallygate/demo/history"
	"github.com/tallygate/tallygate/db"
	"github.com/tallygate/tallygate/graph/client"
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
	Out      io.Writer        // says what New does

	BaseURL, AnalyticsURL, CaptchaURL string // public origins
}

// Demo is the demo website and its owner, a client of the control plane like any other.
type Demo struct {
	options   Options
	owner     Owner
	site      *client.Configured
	scriptTag string // for the site's pages

	form   *contactForm
	client *http.Client   // with the owner's session
	api    graphql.Client // the same for GraphQL
}

// Owner is the demo's user, whose password is kept in the data folder between runs.
type Owner struct {
	Email    string `json:"email"`
	Password string `json:"password"`
}

// New signs the owner in, or up on the first run, sets up the site with its webhook and the form,
// and stores the visits since the last run. It writes a line before each step.
func New(ctx context.Context, o Options) (*Demo, error) {
	jar, err := cookiejar.New(nil)
	if err != nil {
		return nil, err
	}

	say := func(step string) { fmt.Fprintln(o.Out, "Demo:", step) }
	d := &Demo{options: o, client: &http.Client{Jar: jar, Timeout: 10 * time.Second}}
	d.api = graphql.NewClient(o.Control+"/graphql", d.client)
	if d.owner, err = ReadOrCreateOwner(o.DataDir); err != nil {
		return nil, err
	}

	say("the owner signs in, and the site is set up")
	if err := d.authenticate(ctx); err != nil {
		return nil, err
	}
	if err := d.findOrCreateSite(ctx); err != nil {
		return nil, err
	}
	if err := o.Webhooks.sendConversions(ctx, o.DB, d.owner.Email, d.site.SiteKey); err != nil {
		return nil, fmt.Errorf("webhook: %w", err)
	}

	say("the form gets a captcha")
	sitekey, secret, err := prepareSitekey(ctx, o.DB, d.owner.Email)
	if err != nil {
		return nil, fmt.Errorf("form: %w", err)
	}

	d.form = newContactForm(o.CaptchaURL, o.Data, sitekey.Sitekey, secret)

	say(fmt.Sprintf("the visits since the last run, of at most %d days, are generated, stored and counted", history.Days))
	if err := d.prepareReports(ctx, sitekey); err != nil {
		return nil, fmt.Errorf("history: %w", err)
	}
	return d, nil
}

// ReadOrCreateOwner returns the owner whose password is in a data folder. On the first run it
// stores a new password there.
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
	in, err := client.SignIn(ctx, d.api, d.owner.Email, d.owner.Password)
	if err = client.Refused(err, in.SignIn); err == nil {
		return nil
	}

	up, err := client.SignUp(ctx, d.api, d.owner.Email, d.owner.Password, "Demo")
	return client.Refused(err, up.SignUp)
}

// findOrCreateSite finds the site, or creates it on the first run, and reads its script tag.
func (d *Demo) findOrCreateSite(ctx context.Context) error {
	found, err := client.Sites(ctx, d.api, 100, nil)
	if err != nil {
		return err
	}

	for _, edge := range found.Sites.Edges {
		if edge.Node.Domain == Domain {
			d.site = &edge.Node
		}
	}

	if d.site == nil {
		created, err := client.CreateSite(ctx, d.api, client.CreateSiteInput{Domain: Domain, Name: new("Demo shop")})
		if err := client.Refused(err, created.CreateSite); err != nil {
			return err
		}

		d.site = created.CreateSite.Site
	}

	install, err := client.InstallSite(ctx, d.api, d.site.Id)
	if err != nil {
		return err
	}

	d.scriptTag = install.Site.ScriptTag
	return nil
}
