package serve

import (
	"context"
	"net/http"
	"slices"
	"time"

	"github.com/tallygate/tallygate/cmd/tallygate/config"
	"github.com/tallygate/tallygate/db/keys"
	assets "github.com/tallygate/tallygate/frontend-assets"

	"github.com/tallygate/tallygate/dataplane"
	"github.com/tallygate/tallygate/dataplane/analytics"
	"github.com/tallygate/tallygate/dataplane/captcha"
	"github.com/tallygate/tallygate/db/ingest"
	"github.com/tallygate/tallygate/web"
)

func (a *App) openData(ctx context.Context, clients *web.Clients) (err error) {
	userIDKey, err := keys.New(a.db).UserIDKey(ctx)
	if err != nil {
		return err
	}

	cell := a.db.DefaultCell()
	a.analytics, err = analytics.New(analytics.Options{
		Cell:       cell,
		UserIDKey:  userIDKey,
		VisitorKey: keys.New(a.db).VisitorKey,
		ClientAddr: clients.Addr,
		IsShared:   clients.Shared,
		FloodBurst: a.config.FloodBurst,
		FloodRate:  a.config.FloodRate,

		ServerFloodBurst: a.config.ServerFloodBurst,
		ServerFloodRate:  a.config.ServerFloodRate,

		Country:      a.files.country(),
		IsSpam:       a.files.isSpam(),
		IsDataCentre: a.files.isDataCentre(),

		Now:    time.Now,
		Store:  ingest.NewHitStore(cell),
		Log:    a.log,
		Notify: a.notify(),
	})
	if err != nil {
		return err
	}

	a.captcha, err = captcha.New(captcha.Options{
		Cell:       cell,
		Secret:     a.keys.Current,
		Rotation:   a.keys.Rotation,
		ClientAddr: clients.Addr,
		IsShared:   clients.Shared,
		Difficulty: a.config.CaptchaDifficulty,
		Now:        time.Now,
		Store:      ingest.NewClaimStore(cell),
		Log:        a.log,

		Origins:       []string{string(a.config.CaptchaURL), string(a.config.AnalyticsURL)},
		NoTestSitekey: !a.config.CaptchaTestSitekey,
	})
	if err != nil {
		return err
	}

	data := dataplane.Handler(dataplane.Options{Analytics: a.analytics, Captcha: a.captcha, Assets: assets.Handler(),
		Log: a.log, Prober: &dataplane.Prober{Key: a.keys.Current.Derive("probe"), Clients: clients}})
	health := http.NewServeMux()
	a.serveHealth(health)

	// A ServeMux would redirect a path such as //collect.php, so the data plane gets its own
	// routing.
	handler := web.Recover(a.log, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if slices.Contains(healthPaths, r.URL.Path) {
			health.ServeHTTP(w, r)
			return
		}
		data.ServeHTTP(w, r)
	}))

	// With TLS on only one of the origins, the other may share its host.
	if a.config.AnalyticsURL.IsHTTPS() && a.config.CaptchaURL.IsHTTPS() {
		handler = overTLS(handler)
	}

	a.data.Handler = a.observer(config.RoleData).Handler(a.leaving(handler))
	return nil
}
