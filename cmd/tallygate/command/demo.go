package command

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"

	"github.com/tallygate/tallygate/cmd/tallygate/config"
	"github.com/tallygate/tallygate/cmd/tallygate/demo"
	"github.com/tallygate/tallygate/cmd/tallygate/serve"
	"github.com/tallygate/tallygate/db/model"
)

// demoCommand runs the service with the demo: an owner, a site, and a website on a listener of its
// own.
type demoCommand struct {
	DemoAddr config.Address `long:"demo-addr" env:"TALLYGATE_DEMO_ADDR" default:"127.0.0.1:8082" value-name:"HOST:PORT"`
}

// demoDataDir keeps the demo's data apart from real data.
const demoDataDir = "./tallygate-demo"

// check sets the demo's own data folder unless one was configured, even as the default of serve.
func (c *demoCommand) check(s *session) error {
	if !s.parser.IsConfigured("data-dir") {
		s.settings.DataDir = demoDataDir
	}
	return nil
}

// Run serves until ctx ends.
func (c *demoCommand) Run(ctx context.Context, s *session) error {
	s.settings.AllowLocalDomains = true
	s.settings.DefaultSitePlan = cmp.Or(s.settings.DefaultSitePlan, model.PlanFree) // shows what a quota looks like
	s.settings.DefaultCaptchaPlan = cmp.Or(s.settings.DefaultCaptchaPlan, model.CaptchaPlanFree)
	s.settings.Roles = []config.Role{config.RoleControl, config.RoleData, config.RoleWorker}
	log := s.settings.Logger(s.log)

	// A refused demo writes nothing.
	if err := serve.Check(s.settings); err != nil {
		return err
	}

	website, err := net.Listen("tcp", string(c.DemoAddr))
	if err != nil {
		return fmt.Errorf("--demo-addr: %w", err)
	}
	defer website.Close()

	webhooks, err := demo.ListenForWebhooks(s.settings.DataDir, s.settings.WebhookCAFile)
	if err != nil {
		return fmt.Errorf("prepare the demo's webhook receiver: %w", err)
	}
	defer webhooks.Listener.Close()

	s.settings.WebhookCAFile = webhooks.CAFile
	s.settings.WebhookAllowNets = append(s.settings.WebhookAllowNets, config.Network{Prefix: webhooks.Net})

	fmt.Fprintln(s.out, "Demo: the service starts with its data in", s.settings.DataDir)
	app, err := serve.Open(ctx, s.settings, log)
	if err != nil {
		return err
	}

	ctx, cancel := context.WithCancel(ctx)
	defer cancel()

	ended := make(chan error, 1)
	go func() { ended <- app.Run(ctx) }()
	select {
	case <-app.Serving():
	case err := <-ended:
		return err
	}

	d, err := demo.New(ctx, demo.Options{
		DB:           app.DB(),
		DataDir:      s.settings.DataDir,
		Control:      "http://" + app.Addr("control"),
		Data:         "http://" + app.Addr("data"),
		Webhooks:     webhooks,
		Out:          s.out,
		BaseURL:      cmp.Or(string(s.settings.BaseURL), "http://"+app.Addr("control")),
		AnalyticsURL: string(s.settings.AnalyticsURL),
		CaptchaURL:   string(s.settings.CaptchaURL),
	})
	if err != nil {
		cancel()
		return errors.Join(fmt.Errorf("prepare the demo: %w", err), <-ended)
	}

	shop, backend := serve.NewServer(d.Website()), serve.NewServer(webhooks.Handler())

	for server, listener := range map[*http.Server]net.Listener{shop: website, backend: webhooks.Listener} {
		go func() {
			if err := server.Serve(listener); !errors.Is(err, http.ErrServerClosed) {
				log.Error("demo website", "error", err)
			}
		}()
		defer server.Close()
	}

	_, port, _ := net.SplitHostPort(website.Addr().String())
	log.Info("listening", "role", "demo", "addr", website.Addr().String(), "url", "http://"+demo.Domain+":"+port)
	d.Greet(s.out, port)

	return <-ended
}
