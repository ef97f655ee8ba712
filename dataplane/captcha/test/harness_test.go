package captcha_test

import (
	"os"
	"testing"
	"time"

	"github.com/tallygate/tallygate/dataplane/captcha"
	"github.com/tallygate/tallygate/db"
	"github.com/tallygate/tallygate/tools/dbtest"
	"github.com/tallygate/tallygate/tools/testkit"
	"github.com/tallygate/tallygate/tools/world"
	"github.com/tallygate/tallygate/tools/world/planetest"
)

func TestMain(m *testing.M) { os.Exit(dbtest.RunByTurns(m)) }

var (
	noon   = dbtest.Noon.Time()
	secret = []byte(planetest.Secret)
)

const (
	configPath     = planetest.ConfigPath
	verifyPath     = planetest.VerifyPath
	siteverifyPath = planetest.SiteverifyPath
	compatPath     = planetest.CompatPath
	formType       = planetest.FormType
)

type (
	m       = map[string]any
	call    = planetest.Call
	sitekey = world.Sitekey
)

// plane is a data plane with hits that are not stored.
type plane struct{ *planetest.Plane }

// newPlane returns a plane with a request's timeout for busy machines.
func newPlane(tb testing.TB, d *db.DB) *plane {
	tb.Helper()
	return newPlaneWithin(tb, d, nil, testkit.NewClock(noon), hang)
}

// eachPlane runs test with a new plane on each database, in parallel with other tests.
func eachPlane(t *testing.T, test func(t *testing.T, p *plane)) {
	t.Helper()
	dbtest.Parallel(t, func(t *testing.T, d *db.DB) { test(t, newPlane(t, d)) })
}

// newPlaneOn is newPlane with a given store and clock, and the usual timeout.
func newPlaneOn(tb testing.TB, d *db.DB, store captcha.ClaimStore, c *testkit.Clock) *plane {
	tb.Helper()
	return newPlaneWithin(tb, d, store, c, captcha.StoreTimeout)
}

// newPlaneWithin is newPlaneOn with another timeout for requests.
func newPlaneWithin(tb testing.TB, d *db.DB, store captcha.ClaimStore, c *testkit.Clock, timeout time.Duration) *plane {
	tb.Helper()
	return newPlaneWith(tb, d, c, timeout, func(o *captcha.Options) { o.Store = store })
}

// newPlaneWith is newPlaneWithin with other options.
func newPlaneWith(tb testing.TB, d *db.DB, c *testkit.Clock, timeout time.Duration, change func(*captcha.Options)) *plane {
	tb.Helper()
	return &plane{planetest.New(tb, d, planetest.Options{Clock: c, Captcha: func(o *captcha.Options) {
		o.Timeout = timeout
		change(o)
	}})}
}

// The answers of siteverify.
const (
	valid       = `{"valid":true,"over_limit":false,"reserve":false,"quota_exceeded":false}`
	fromReserve = `{"valid":true,"over_limit":true,"reserve":true,"quota_exceeded":false}`
	exceeded    = `{"valid":false,"over_limit":true,"reserve":false,"quota_exceeded":true}`
	invalid     = `{"valid":false,"over_limit":false,"reserve":false,"quota_exceeded":false}`
)

func refused(code string) string { return `{"success":false,"error-codes":["` + code + `"]}` }
