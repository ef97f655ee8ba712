package serve

import (
	"fmt"
	"net/http"
	"time"

	"github.com/tallygate/tallygate/cmd/tallygate/config"
	"github.com/tallygate/tallygate/cmd/tallygate/version"
	assets "github.com/tallygate/tallygate/frontend-assets"

	"github.com/tallygate/tallygate/db/model"
	"github.com/tallygate/tallygate/graph"
	"github.com/tallygate/tallygate/graph/auth"
	"github.com/tallygate/tallygate/graph/export"
	"github.com/tallygate/tallygate/graph/mcp"
	"github.com/tallygate/tallygate/graph/plain"
	"github.com/tallygate/tallygate/graph/provider"
	"github.com/tallygate/tallygate/graph/resolver"
	"github.com/tallygate/tallygate/graph/upload"
	"github.com/tallygate/tallygate/web"
)

func (a *App) openControl(clients *web.Clients) error {
	c := a.config
	authorities, err := Certificates(c.OIDCCAFile)
	if err != nil {
		return fmt.Errorf("--oidc-ca-file: %w", err)
	}

	sessions, err := auth.New(auth.Options{
		DB:          a.db,
		Secret:      a.keys.Current,
		Rotation:    a.keys.Rotation,
		BaseURL:     string(c.BaseURL),
		Signups:     c.Signups,
		CaptchaPlan: c.CaptchaPlan(),
		NoMail:      a.sendsNoMail(),
		ClientAddr:  clients.Addr,
		IsShared:    clients.Shared,
		Now:         time.Now,

		Provider: Provider(c), ProviderName: c.OIDCName,
		Providers: provider.New(provider.Options{
			Allowed: config.Prefixes(c.OIDCAllowNets), Authorities: authorities, Now: time.Now,
		}),
		ProviderNets:      config.Prefixes(c.OIDCAllowNets),
		AllowLocalDomains: c.AllowLocalDomains,
		Log:               a.log,
	})
	if err != nil {
		return err
	}

	var graphiQL http.Handler

	if c.GraphiQL {
		graphiQL = assets.GraphiQL()
	}

	api, err := graph.New(graph.Options{
		DB:                a.db,
		Auth:              sessions,
		BaseURL:           string(c.BaseURL),
		AnalyticsURL:      string(c.AnalyticsURL),
		CaptchaURL:        string(c.CaptchaURL),
		CaptchaDifficulty: c.CaptchaDifficulty,
		AllowLocalDomains: c.AllowLocalDomains,
		DefaultSitePlan:   c.SitePlan(),
		WebhookNets:       config.Prefixes(c.WebhookAllowNets),
		Now:               time.Now,
		Log:               a.log,
		Introspection:     c.Introspection,
		ClientAddr:        clients.Addr,
		IsShared:          clients.Shared,
		Findings:          a.findings,
		GraphiQL:          graphiQL,
		Configuration:     a.configuration(),
		Notify:            a.notify(),
		Metrics:           a.registerer,
	})
	if err != nil {
		return err
	}

	stopMail, err := graph.StopMail(a.db, time.Now, a.log)
	if err != nil {
		return err
	}

	frames, err := graph.LinkFrames(a.db)
	if err != nil {
		return err
	}

	files, err := upload.Handler(upload.Options{
		DB: a.db, Log: a.log, BaseURL: string(c.BaseURL), Now: time.Now, User: sessions.Uploader,
	})
	if err != nil {
		return err
	}

	mux := http.NewServeMux()
	mux.Handle("/graphql", api)
	if c.Introspection {
		mux.Handle(graph.SchemaPath, graph.SchemaFile())
	}
	mux.Handle(mcp.Path, api)
	mux.Handle(mcp.Path+"/{$}", api) // some clients end the address with a slash
	mux.Handle(plain.Path, api)

	if c.GraphiQL {
		mux.Handle("/graphiql/", graphiQL)
	}

	mux.Handle("POST "+model.StopMailPath, stopMail)
	sessions.Providers.MountCallback(mux)
	mux.Handle(export.Path, export.Handler(export.Options{DB: a.db, User: sessions.Downloader, Log: a.log}))
	mux.Handle(upload.Path, files)
	assets.MountConsole(mux, string(c.CaptchaURL), frames)
	a.serveHealth(mux)
	handler := onlyFor(c.BaseURL, a.baseConfigured, web.Recover(a.log, mux))
	if c.BaseURL.IsHTTPS() {
		handler = overTLS(handler)
	}

	a.control.Handler = a.observer(config.RoleControl).Handler(a.leaving(handler))
	return nil
}

// Provider returns the settings of the installation's OpenID Connect provider, without an issuer if
// it has none.
func Provider(c *config.Config) provider.Settings {
	return provider.Settings{
		Issuer: c.OIDCIssuer, ClientID: c.OIDCClientID, ClientSecret: string(c.OIDCClientSecret), Trusted: true,
		VerifiesEmails: c.OIDCTrustEmails,
	}
}

// configuration returns what operators see of the settings.
func (a *App) configuration() resolver.Configuration {
	c := a.config
	roles := make([]string, len(c.Roles))
	for i, role := range c.Roles {
		roles[i] = string(role)
	}
	if a.parent != nil {
		roles = append(roles, string(config.RoleData)) // of the parent
	}

	return resolver.Configuration{
		Version: version.Read().String(),
		BaseURL: string(c.BaseURL), Roles: roles, Signups: c.Signups, MailServer: c.SMTPURL != "", Redis: c.RedisURL != "",
		RetentionMonths: c.RetentionMonths, ReportMonths: c.ReportMonths,
		Countries: c.GeoFile != "", Shields: shields(c),
	}
}

// shields returns the shields for which the settings name a list. A process without the data role
// knows them if it has the same settings as the data nodes.
func shields(c *config.Config) (list []model.Shield) {
	if c.ReferrerSpamFile != "" {
		list = append(list, model.ShieldReferrerSpam)
	}
	if c.DataCentreFile != "" {
		list = append(list, model.ShieldDataCentres)
	}
	return list
}
