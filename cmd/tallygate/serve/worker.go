package serve

import (
	"crypto/x509"
	"errors"
	"fmt"
	netmail "net/mail"
	"os"
	"time"

	"github.com/tallygate/tallygate/cmd/tallygate/config"
	"github.com/tallygate/tallygate/cmd/tallygate/importer"
	"github.com/tallygate/tallygate/db/model"
	"github.com/tallygate/tallygate/db/reports"
	"github.com/tallygate/tallygate/jobs"
	"github.com/tallygate/tallygate/jobs/mail"
	"github.com/tallygate/tallygate/jobs/queue"
	"github.com/tallygate/tallygate/jobs/webhook"
)

// Check checks the settings that depend on the machine, before a start writes anything.
func Check(c *config.Config) error {
	if c.UsesTLS() {
		if _, err := Certificates(c.TLSCAFile); err != nil {
			return fmt.Errorf("--tls-acme-ca-file: %w", err)
		}
	}
	if c.Has(config.RoleControl) {
		if _, err := Certificates(c.OIDCCAFile); err != nil {
			return fmt.Errorf("--oidc-ca-file: %w", err)
		}
	}
	if !c.Has(config.RoleWorker) {
		return nil
	}

	if _, err := Certificates(c.WebhookCAFile); err != nil {
		return fmt.Errorf("--webhook-ca-file: %w", err)
	}
	if _, err := netmail.ParseAddress(c.MailFrom); err != nil {
		return fmt.Errorf("--mail-from: %q is not an e-mail address", c.MailFrom)
	}

	return nil
}

// openJobs opens the worker, or the connection by which the other roles notify a worker in another
// process.
func (a *App) openJobs() error {
	c := a.config
	if !c.Has(config.RoleWorker) {
		if c.RedisURL == "" {
			// The workers poll the database.
			return nil
		}

		var err error
		a.notifier, err = queue.NewNotifier(string(c.RedisURL), a.log)
		return err
	}

	authorities, err := Certificates(c.WebhookCAFile)
	if err != nil {
		return fmt.Errorf("--webhook-ca-file: %w", err)
	}

	var server *mail.Server

	if c.SMTPURL != "" {
		if server, err = mail.NewServer(string(c.SMTPURL), c.MailFrom, nil); err != nil {
			return err
		}
	}

	a.jobs, err = jobs.New(jobs.Options{
		DB:                 a.db,
		RedisURL:           string(c.RedisURL),
		Now:                time.Now,
		Log:                a.log,
		RetentionMonths:    c.RetentionMonths,
		ReportMonths:       c.ReportMonths,
		Reports:            reports.New(a.db),
		Imports:            importer.Jobs{},
		WebhookNets:        config.Prefixes(c.WebhookAllowNets),
		WebhookAuthorities: authorities,
		Mail:               server,
		BaseURL:            string(c.BaseURL),
	})
	return err
}

// Certificates returns the system's certificates and those in a file. Without a file it returns
// nil.
func Certificates(file string) (*x509.CertPool, error) {
	if file == "" {
		return nil, nil
	}

	text, err := os.ReadFile(file)
	if err != nil {
		return nil, err
	}

	pool, err := x509.SystemCertPool()
	if err != nil {
		pool = x509.NewCertPool()
	}
	if !pool.AppendCertsFromPEM(text) {
		return nil, errors.New("the file has no certificate in PEM form")
	}

	return pool, nil
}

// notify returns the function that asks the workers, in this process or in others, for the first
// attempts of new deliveries. It is nil if there is no such way.
func (a *App) notify() func([]model.Delivery) {
	switch {
	case a.jobs != nil:
		return a.jobs.Notify
	case a.notifier != nil:
		return func(deliveries []model.Delivery) { webhook.Notify(a.notifier, deliveries) }
	}
	return nil
}
