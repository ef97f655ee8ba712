package command

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"os"
	"slices"

	"github.com/alecthomas/kong"

	"github.com/tallygate/tallygate/cmd/tallygate/config"
	"github.com/tallygate/tallygate/cmd/tallygate/demo"
	"github.com/tallygate/tallygate/cmd/tallygate/serve"
)

// demoCommand runs the service with the demo: an owner, a site, and a website on a listener of its
// own.
type demoCommand struct {
	DemoAddr config.Address `env:"TALLYGATE_DEMO_ADDR" default:"127.0.0.1:8082" placeholder:"HOST:PORT"`
}

// demoDataDir keeps the demo's data apart from real data.
const demoDataDir = "./tallygate-demo"

// AfterApply sets the demo's own data folder unless one was configured, even as the default of serve.
func (c *demoCommand) AfterApply(parsed *kong.Context, settings *config.Config) error {
	flag := func(p *kong.Path) bool { return p.Flag != nil && p.Flag.Name == "data-dir" }
	if !slices.ContainsFunc(parsed.Path, flag) && os.Getenv("TALLYGATE_DATA_DIR") == "" {
		settings.DataDir = demoDataDir
	}
	return nil
}

// Run serves until ctx ends.
func (c *demoCommand) Run(ctx context.Context, term terminal, settings *config.Config) error {
	settings.AllowLocalDomains = true
	settings.Roles = []config.Role{config.RoleControl, config.RoleData, config.RoleWorker}
	log := settings.Logger(term.log)

	website, err := net.Listen("tcp", string(c.DemoAddr))
	if err != nil {
		return fmt.Errorf("--demo-addr: %w", err)
	}
	defer website.Close()

	webhooks, err := demo.ListenForWebhooks(settings.DataDir, settings.WebhookCAFile)
	if err != nil {
		return fmt.Errorf("prepare the demo's webhook receiver: %w", err)
	}
	defer webhooks.Listener.Close()

	settings.WebhookCAFile = webhooks.CAFile
	settings.WebhookAllowNets = append(settings.WebhookAllowNets, config.Network{Prefix: webhooks.Net})

	app, err := serve.Open(ctx, settings, log)
	if err != nil {
		return err
	}

	ctx, cancel := context.WithCancel(ctx)
	defer cancel()

	ended := make(chan error, 1)
	go func() { ended <- app.Run(ctx) }()

	d, err := demo.New(ctx, demo.Options{
		DB:           app.DB(),
		DataDir:      settings.DataDir,
		Control:      "http://" + app.Addr("control"),
		Data:         "http://" + app.Addr("data"),
		Webhooks:     webhooks,
		BaseURL:      string(settings.BaseURL),
		AnalyticsURL: string(settings.AnalyticsURL),
		CaptchaURL:   string(settings.CaptchaURL),
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
	d.Greet(term.out, port)

	return <-ended
}
