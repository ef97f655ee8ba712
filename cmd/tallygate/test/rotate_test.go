package test

import (
	"bytes"
	"context"
	"crypto/hmac"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"io"
	"maps"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/tallygate/tallygate/cmd/tallygate/config"
	"github.com/tallygate/tallygate/cmd/tallygate/database"
	"github.com/tallygate/tallygate/cmd/tallygate/secret"
	"github.com/tallygate/tallygate/dataplane/captcha/pow"
	"github.com/tallygate/tallygate/db"
	"github.com/tallygate/tallygate/db/accounts"
	"github.com/tallygate/tallygate/db/keys"
	"github.com/tallygate/tallygate/db/model"
	"github.com/tallygate/tallygate/db/sites"
	"github.com/tallygate/tallygate/tools/dbtest"
	"github.com/tallygate/tallygate/tools/testkit"
)

const (
	firstKey  = "the first application key, of 32 or more"
	secondKey = "the second application key, of 32 or more"
	wrongKey  = "a key that no process ever used, of 32 or more"

	receiverSecret = "the secret that the owner's receiver knows"
)

// rotation is an installation whose application key changes, as seen by its owner, a visitor and a
// site's server.
type rotation struct {
	t        *testing.T
	settings map[string]string
	database string
	owner    *testOwner
	site     testSite
	solver   *solver
	calls    chan string // webhook calls: "signed" or the fault
	orders   int
}

// newRotation prepares an installation with the given key, or a generated key file, and starts a
// process.
func newRotation(t *testing.T, databaseURL, key string) (*rotation, *process) {
	t.Helper()

	r := &rotation{t: t, settings: settingsFor(t, databaseURL), calls: make(chan string, 100)}
	receiver := httptest.NewTLSServer(http.HandlerFunc(r.receive))
	t.Cleanup(receiver.Close)

	for name, value := range map[string]string{
		"WEBHOOK_CA_FILE": certificateFile(t, receiver), "WEBHOOK_ALLOW_NETS": "127.0.0.1/32", "CAPTCHA_DIFFICULTY": "1024", "SIGNUPS": "open",
	} {
		r.settings["TALLYGATE_"+name] = value
	}

	if key != "" {
		r.settings["TALLYGATE_SECRET"] = key
	}
	r.database = databaseOf(r.settings)

	p := r.start(nil)
	r.owner = newOwner(t, p)
	r.site = r.owner.signUp("crash.localhost")
	done := r.owner.data(`mutation { updateSite(input: {siteId: "` + r.site.ID + `", measureEcommerce: true}) { userErrors { code } }
		setConversionWebhook(input: {siteId: "` + r.site.ID + `", url: "` + receiver.URL + `", secret: "` + receiverSecret +
		`"}) { userErrors { code } } }`)
	if strings.Count(done, `"userErrors":[]`) != 2 {
		t.Fatal(done)
	}

	r.makeSitekey()
	return r, p
}

func (r *rotation) makeSitekey() {
	r.t.Helper()

	d := dbtest.Open(r.t, r.database)
	user, err := accounts.New(d).UserByEmail(r.t.Context(), "owner@crash.localhost")
	testkit.NoError(r.t, err)

	key, secret, err := sites.New(d).Sitekeys.CreateSitekey(r.t.Context(), user.AccountID, "Rotation", nil, model.At(time.Now()))
	testkit.NoError(r.t, err)

	r.solver = newSolver("", key.Sitekey, secret)
}

// receive is the owner's webhook receiver.
func (r *rotation) receive(w http.ResponseWriter, request *http.Request) {
	body, _ := io.ReadAll(request.Body)
	mac := hmac.New(sha256.New, []byte(receiverSecret))
	mac.Write(body)

	if got, want := request.Header.Get("X-Service-Signature"), "sha256="+hex.EncodeToString(mac.Sum(nil)); got != want {
		r.calls <- "signature " + got + ", want " + want
		return
	}

	r.calls <- "signed"
}

// start starts a process of all roles, with changed settings.
func (r *rotation) start(changed map[string]string) *process {
	r.t.Helper()
	return start(r.t, r.with(changed), []string{"control", "data"})
}

func (r *rotation) with(changed map[string]string) map[string]string {
	settings := maps.Clone(r.settings)
	maps.Copy(settings, changed)
	return settings
}

// token obtains a token from a process.
func (r *rotation) token(issuer, verifier *process) (token string) {
	r.t.Helper()

	var c pow.Challenge
	r.solver.data = issuer.addr["data"]
	if status, err := r.solver.post("/api/v1/pow/config", map[string]any{"sitekey": r.solver.sitekey},
		&c); err != nil || status != http.StatusOK {
		r.t.Fatal(status, err)
	}

	nonce, err := pow.Solve(c)
	testkit.NoError(r.t, err)

	var solved struct{ Token, Error string }
	r.solver.data = verifier.addr["data"]
	work := map[string]any{"sitekey": r.solver.sitekey, "challenge": c.Challenge, "nonce": nonce}
	if status, err := r.solver.post("/api/v1/pow/verify", work, &solved); err != nil || status != http.StatusOK {
		r.t.Fatalf("verify: %d %+v %v", status, solved, err)
	}

	return solved.Token
}

func (r *rotation) redeem(p *process, token string) (valid bool) {
	r.t.Helper()
	r.solver.data = p.addr["data"]
	valid, err := r.solver.redeem(token)
	testkit.NoError(r.t, err)
	return valid
}

func (r *rotation) view(p *process, path string) {
	r.t.Helper()
	for deadline := time.Now().Add(patience); ; {
		status, err := sendPageview(http.DefaultClient, p.addr["data"], r.site.SiteKey, path)
		if err == nil && status == http.StatusNoContent {
			return
		}

		// On a busy machine a hit's turn may come too late. It is then answered with 503 and not
		// stored.
		if status != http.StatusServiceUnavailable || time.Now().After(deadline) {
			r.t.Fatalf("%s: %d, %v", path, status, err)
		}
	}
}

// visitors returns the number of distinct visitors and of page views.
func (r *rotation) visitors() (visitors, views int) {
	r.t.Helper()
	distinct := make(map[any]bool)
	rows := r.owner.export(r.site.ID)
	for _, row := range rows {
		distinct[row["visitor_id"]] = true
	}
	return len(distinct), len(rows)
}

// signedIn reports whether the owner's session is accepted by a process.
func (r *rotation) signedIn(p *process) bool {
	r.t.Helper()
	r.owner.Origin = "http://" + p.addr["control"]
	_, body := exchange(r.t, r.owner.HTTP, http.MethodPost, r.owner.Origin+"/graphql", `{"query":"{ viewer { email } }"}`,
		map[string]string{"Content-Type": "application/json"})
	return strings.Contains(body, "owner@crash.localhost")
}

// purchase sends a purchase and waits for its signed webhook.
func (r *rotation) purchase(p *process) {
	r.t.Helper()

	r.orders++
	body := fmt.Sprintf(`{"k":%q,"t":"event","p":"/thanks","e":"purchase","m":{"transaction_id":"R-%d","value":19.9,"currency":"EUR"}}`,
		r.site.SiteKey, r.orders)
	response, answer := exchange(r.t, http.DefaultClient, http.MethodPost, "http://"+p.addr["data"]+"/collect.php", body,
		map[string]string{"Origin": "https://crash.localhost", "User-Agent": firefox})
	if response.StatusCode != http.StatusNoContent {
		r.t.Fatal(response.Status, answer)
	}

	select {
	case call := <-r.calls:
		if call != "signed" {
			r.t.Error(call)
		}
	case <-time.After(patience):
		r.t.Fatalf("no webhook call for order %d:\n%s", r.orders, p.logged())
	}
}

// TestRotateSecretOfFleet gives the processes a new application key one after the other, then the
// database. Callers must see no difference.
func TestRotateSecretOfFleet(t *testing.T) {
	testkit.SkipLong(t, "a fleet")
	dbtest.ParallelURL(t, func(t *testing.T, databaseURL string) {
		r, old := newRotation(t, databaseURL, firstKey)
		both := map[string]string{"TALLYGATE_SECRET": secondKey, "TALLYGATE_SECRET_PREVIOUS": firstKey}
		early := r.token(old, old)
		r.view(old, "/before")

		// Before the database changes, each process accepts what the other one signs.
		renewed := r.start(both)
		if !r.redeem(renewed, r.token(old, renewed)) || !r.redeem(old, r.token(renewed, old)) {
			t.Error("two processes refuse each other's tokens")
		}
		if !r.signedIn(renewed) {
			t.Error("the session is not known to the process with the new key")
		}

		r.view(renewed, "/both")

		status, out, log := tallygate(t, r.with(both), "admin", "rotate-secret")
		if status != 0 || !strings.Contains(out, "sealed with the new key: 1.") {
			t.Fatalf("rotate-secret: %d\n%s%s", status, out, log)
		}

		old.signal(syscall.SIGTERM)
		awaitLog(t, renewed, "signs with the new one from now on")

		if !r.redeem(renewed, early) {
			t.Error("a token from before the rotation is refused")
		}
		if !r.signedIn(renewed) {
			t.Error("the session ended with the rotation")
		}

		r.view(renewed, "/after")
		r.purchase(renewed)
		late := r.token(renewed, renewed)

		if status, out, _ := tallygate(t, r.with(both), "admin", "rotate-secret"); status != 0 ||
			!strings.Contains(out, "used this key already") {
			t.Errorf("a second rotate-secret: %d %s", status, out)
		}

		// Without the previous key, what the new one signed and sealed remains valid; the old
		// session ends.
		only := r.start(map[string]string{"TALLYGATE_SECRET": secondKey})
		if !r.redeem(only, late) {
			t.Errorf("a token from after the rotation is refused; the process with both keys accepts it: %t", r.redeem(renewed, late))
		}

		r.view(only, "/only")

		if r.signedIn(only) {
			t.Error("a session that the previous key signed outlives it")
		}

		renewed.signal(syscall.SIGTERM)
		r.purchase(only)
		r.owner.signIn("crash.localhost")

		if visitors, views := r.visitors(); visitors != 1 || views != 4 {
			t.Errorf("%d visitors with %d page views, want 1 with 4: a visitor counts twice", visitors, views)
		}
	})
}

// TestRotateTooEarly rotates the database while a process still has only the previous key. The
// process reports that, and refuses to seal secrets instead of losing them.
func TestRotateTooEarly(t *testing.T) {
	testkit.SkipLong(t, "a fleet")
	dbtest.ParallelURL(t, func(t *testing.T, databaseURL string) {
		r, old := newRotation(t, databaseURL, firstKey)
		r.view(old, "/before")

		both := map[string]string{"TALLYGATE_SECRET": secondKey, "TALLYGATE_SECRET_PREVIOUS": firstKey}
		if status, out, log := tallygate(t, r.with(both), "admin", "rotate-secret"); status != 0 {
			t.Fatalf("rotate-secret: %d\n%s%s", status, out, log)
		}

		awaitLog(t, old, `"level":"ERROR","msg":"the database uses an application key that this process does not have`)

		awaitReadyText(t, old, "\nwarning: the database uses an application key", true)

		renewed := r.start(both)
		r.view(renewed, "/after")
		r.view(old, "/still")

		if !r.redeem(renewed, r.token(old, old)) {
			t.Error("a token of the process that was not restarted yet is refused")
		}
		if visitors, views := r.visitors(); visitors != 1 || views != 3 {
			t.Errorf("%d visitors with %d page views, want 1 with 3", visitors, views)
		}
	})
}

// TestRotateSecretFile interrupts the rotation of a key file after each step. A process must start
// then, and the rotation must complete later.
func TestRotateSecretFile(t *testing.T) {
	testkit.SkipLong(t, "a fleet")
	dbtest.ParallelURL(t, func(t *testing.T, databaseURL string) {
		for steps := range 4 {
			t.Run(fmt.Sprint("interrupted after step ", steps), func(t *testing.T) {
				if strings.HasPrefix(databaseURL, "postgres") {
					databaseURL = dbtest.PostgresURL(t)
				}

				r, p := newRotation(t, databaseURL, "")
				dir := r.settings["TALLYGATE_DATA_DIR"]

				if status, _, log := tallygate(t, r.settings, "admin", "rotate-secret"); status != 1 ||
					!strings.Contains(log, database.ErrInUse.Error()) {
					t.Errorf("rotate-secret while a process runs: %d %s", status, log)
				}

				token := r.token(p, p)
				r.view(p, "/before")
				p.signal(syscall.SIGTERM)

				interruptRotation(t, dir, r.database, steps)
				p = r.start(nil)
				r.view(p, "/between")

				if !r.signedIn(p) {
					t.Error("the session ended with the interrupted rotation")
				}

				p.signal(syscall.SIGTERM)

				status, out, log := tallygate(t, r.settings, "admin", "rotate-secret")
				if complete := steps == 3; complete && !strings.Contains(log, "is complete; to rotate again") ||
					!complete && status != 0 {
					t.Fatalf("rotate-secret: %d\n%s%s", status, out, log)
				}

				checkSecretFiles(t, dir)

				p = r.start(nil)
				r.view(p, "/after")

				if !r.redeem(p, token) || !r.signedIn(p) {
					t.Error("a token or the session of before is refused")
				}

				r.purchase(p)

				if visitors, views := r.visitors(); visitors != 1 || views != 3 {
					t.Errorf("%d visitors with %d page views, want 1 with 3", visitors, views)
				}

				p.signal(syscall.SIGTERM)

				testkit.NoError(t, os.Remove(filepath.Join(dir, secret.PreviousFile)))

				p = r.start(nil)
				r.purchase(p)

				if r.signedIn(p) {
					t.Error("a session that the previous key signed outlives it")
				}
			})
		}
	})
}

// interruptRotation runs the first steps of a rotation, as a process that is killed after them.
func interruptRotation(t *testing.T, dir, databaseURL string, steps int) {
	t.Helper()

	d, err := db.Open(databaseURL)
	testkit.NoError(t, err)

	rotation := secret.NewFileRotation(dir, d)

	// The first step changes nothing.
	for _, step := range rotation.Steps()[:steps+1] {
		testkit.NoError(t, step(t.Context()))
	}

	testkit.NoError(t, d.Close())
}

func checkSecretFiles(t *testing.T, dir string) {
	t.Helper()

	keys := make(map[string]bool)
	for _, name := range []string{secret.File, secret.PreviousFile} {
		info, err := os.Stat(filepath.Join(dir, name))
		if err != nil || info.Mode().Perm() != 0o600 {
			t.Errorf("%s: %v, %v; want mode 0600", name, info, err)
		}

		key, err := os.ReadFile(filepath.Join(dir, name))
		if err != nil {
			t.Error(err)
		}

		var s config.Secret
		testkit.Succeeds(t, s.UnmarshalFlag(string(bytes.TrimSpace(key))), "%s", name)

		keys[string(s)] = true
	}

	testkit.Equal(t, len(keys), 2, "the two files have the same key")
	if drafts, _ := filepath.Glob(filepath.Join(dir, secret.File+".*")); len(drafts) != 1 {
		t.Errorf("%v are left", drafts)
	}
}

// TestWrongPreviousSecret checks that keys which do not match the database stop the start and the
// rotation, with the setting's name.
func TestWrongPreviousSecret(t *testing.T) {
	dbtest.ParallelURL(t, func(t *testing.T, databaseURL string) {
		settings := settingsFor(t, databaseURL)
		settings["TALLYGATE_SECRET"] = firstKey
		start(t, settings, []string{"control", "data"}).signal(syscall.SIGTERM)

		for _, test := range []struct{ name, secret, previous, serve, rotate string }{
			{"wrong previous key", secondKey, wrongKey, "uses neither of the two application keys",
				"uses neither of the two application keys"},
			{"previous key of no rotation", firstKey, wrongKey, "not the key that this database used before",
				"already uses TALLYGATE_SECRET; to replace"},
			{"no previous key", secondKey, "", "first used with another application key",
				"set TALLYGATE_SECRET to the new application key"},
			{"the same key twice", firstKey, firstKey, "TALLYGATE_SECRET_PREVIOUS: this is the same key",
				"TALLYGATE_SECRET_PREVIOUS: this is the same key"},
			{"too short", firstKey, "hunter2", "TALLYGATE_SECRET_PREVIOUS: must have 32 to 1024 characters",
				"TALLYGATE_SECRET_PREVIOUS: must have 32 to 1024 characters"},
		} {
			settings["TALLYGATE_SECRET"], settings["TALLYGATE_SECRET_PREVIOUS"] = test.secret, test.previous

			if test.previous == "" {
				delete(settings, "TALLYGATE_SECRET_PREVIOUS")
			}

			for command, want := range map[string]string{"serve": test.serve, "rotate-secret": test.rotate} {
				args := []string{"admin", command}

				if command == "serve" {
					args = args[1:]
				}

				status, _, log := tallygate(t, settings, args...)
				if status == 0 || !strings.Contains(log, want) || strings.Contains(log, "hunter2") ||
					strings.Contains(log, wrongKey) {
					t.Errorf("%s, %s: %d %s\nwant %q and no key", test.name, command, status, log, want)
				}
			}
		}

		settings["TALLYGATE_SECRET"] = firstKey
		delete(settings, "TALLYGATE_SECRET_PREVIOUS")

		// None of these attempts changed anything.
		start(t, settings, []string{"control", "data"})
	})
}

// TestRotationMeetsSealing checks that a rotation during a change of a webhook secret leaves
// nothing sealed with the previous key.
func TestRotationMeetsSealing(t *testing.T) {
	dbtest.ParallelURL(t, func(t *testing.T, databaseURL string) {
		open := func() *db.DB {
			d, err := db.Open(databaseURL)
			if err == nil {
				t.Cleanup(func() { d.Close() })
				_, err = keys.New(d).ClaimApplicationKey(t.Context(), model.ApplicationKey(firstKey))
			}

			testkit.NoError(t, err)

			d.UseApplicationKey([]byte(secondKey), []byte(firstKey))

			return d
		}

		d, another := open(), open()
		makeSite(t, d, "https://shop.example/hook")

		user, err := accounts.New(d).UserByEmail(t.Context(), "owner@shop.example")
		testkit.NoError(t, err)

		siteList, err := sites.New(d).Sites.Sites(t.Context(), user.AccountID, 0, 1)
		if err != nil || len(siteList) != 1 {
			t.Fatal(siteList, err)
		}

		changing := make(chan error, 1)
		ctx, cancel := context.WithCancel(t.Context())
		defer cancel()

		go func() {
			var err error
			for n := 0; ctx.Err() == nil && err == nil; n++ {
				secret := fmt.Sprintf("secret number %d of the owner", n)
				err = sites.New(another).Sites.SetWebhookSecret(t.Context(), user.AccountID, siteList[0].ID, &secret, model.ChangedBy{})
			}
			changing <- err
		}()

		if _, err := keys.New(d).RotateApplicationKey(t.Context(), model.At(time.Now())); err != nil {
			t.Fatal(err)
		}

		cancel()

		testkit.NoError(t, <-changing)
		if again, err := keys.New(d).RotateApplicationKey(t.Context(), model.At(time.Now())); err != nil || again.Resealed != 0 ||
			!again.Already {
			t.Errorf("%+v, %v; want nothing left that the previous key sealed", again, err)
		}
	})
}
