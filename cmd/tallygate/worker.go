package main

import (
	"crypto/x509"
	"errors"
	"fmt"
	"net/http"
	netmail "net/mail"
	"os"
	"time"

	"github.com/tallygate/tallygate/db/model"
	"github.com/tallygate/tallygate/jobs"
	"github.com/tallygate/tallygate/web"
)

// openJobs makes the worker, or what the other roles need to ring for one elsewhere.
func (a *app) openJobs() error {
	c := a.config
	if !c.Has(RoleWorker) {
		if c.RedisURL == "" {
			// the workers find by themselves what is due
			return nil
		}

		var err error
		a.bell, err = jobs.NewBell(string(c.RedisURL), a.log)
		return err
	}

	authorities, err := certificates(c.WebhookCAFile)
	if err != nil {
		return fmt.Errorf("--webhook-ca-file: %w", err)
	}
	if _, err := netmail.ParseAddress(c.MailFrom); err != nil {
		return fmt.Errorf("--mail-from: %q is not an e-mail address", c.MailFrom)
	}

	var mail *jobs.MailServer

	if c.SMTPURL != "" {
		if mail, err = jobs.NewMailServer(string(c.SMTPURL), c.MailFrom, nil); err != nil {
			return err
		}
	}

	a.jobs, err = jobs.New(jobs.Options{
		DB:                 a.db,
		RedisURL:           string(c.RedisURL),
		Now:                time.Now,
		Log:                a.log,
		RetentionMonths:    c.RetentionMonths,
		WebhookNets:        prefixes(c.WebhookAllowNets),
		WebhookAuthorities: authorities,
		Mail:               mail,
		BaseURL:            string(c.BaseURL),
	})
	if err != nil || c.MetricsAddr == "" {
		return err
	}

	return a.openMetrics()
}

// certificates adds a file's certificates to those that the system trusts. Without a file it is
// nil.
func certificates(file string) (*x509.CertPool, error) {
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

// openMetrics takes the address of the metrics, which is another than those that the public
// reaches.
func (a *app) openMetrics() error {
	var origin Origin
	var err error
	if a.metrics, err = listen("metrics", string(a.config.MetricsAddr), &origin); err != nil {
		return err
	}

	mux := http.NewServeMux()
	mux.HandleFunc("GET /metrics", func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Content-Type", "text/plain; version=0.0.4; charset=utf-8")
		if err := a.jobs.WriteMetrics(r.Context(), w); err != nil {
			a.log.WarnContext(r.Context(), "metrics", "error", err)
		}
	})

	a.health(mux)
	a.metrics.Handler = web.Recover(a.log, mux)
	return nil
}

// ring is what tells the workers of new deliveries, in this process or elsewhere; nil when nothing
// does.
func (a *app) ring() func([]model.Delivery) {
	switch {
	case a.jobs != nil:
		return a.jobs.Ring
	case a.bell != nil:
		return a.bell.Ring
	}
	return nil
}
