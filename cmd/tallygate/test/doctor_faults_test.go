package test

import (
	"net"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/tallygate/tallygate/db"
	"github.com/tallygate/tallygate/db/model"
	"github.com/tallygate/tallygate/tools/dbtest"
	"github.com/tallygate/tallygate/tools/redistest"
	"github.com/tallygate/tallygate/tools/testkit"
	"github.com/tallygate/tallygate/tools/world"
)

// fault is planted into a sound installation. The doctor must find exactly what want lists.
type fault struct {
	name  string
	plant func(i *installation)
	want  []string
}

// set returns a plant that changes settings, given as name and value without the prefix.
func set(pairs ...string) func(*installation) {
	return func(i *installation) {
		for n := 0; n < len(pairs); n += 2 {
			i.settings["TALLYGATE_"+pairs[n]] = pairs[n+1]
		}
	}
}

// find runs the cases, each on an installation of its own.
func find(t *testing.T, faults []fault, install func(*testing.T) *installation) {
	t.Helper()
	golden := openGolden(t)
	for _, f := range faults {
		t.Run(f.name, func(t *testing.T) {
			i := install(t)
			f.plant(i)

			want := 0
			for _, finding := range f.want {
				if strings.HasPrefix(finding, "error ") {
					want = 1
				} else if want == 0 {
					want = 3
				}
			}

			slices.Sort(f.want)
			if findings, status := i.examine(); !slices.Equal(findings, f.want) || status != want {
				t.Errorf("status %d, findings %q; want %d, %q", status, findings, want, f.want)
			}
			golden.compare(t, f.name, i.printed)
		})
	}
}

// TestDoctorSettings plants faults in settings and in the files of an embedded database.
func TestDoctorSettings(t *testing.T) {
	t.Parallel()

	find(t, []fault{
		{"the proxy is not named", set("BASE_URL", "https://localhost:1"),
			[]string{"error proxies-none", "warning origin-unreachable"}},
		{"half of all addresses are trusted", set("TRUSTED_PROXIES", "127.0.0.1,0.0.0.0/1"), []string{"error proxies-all"}},
		{"all public IPv6 addresses are trusted", set("TRUSTED_PROXIES", "2000::/3"), []string{"error proxies-all"}},
		{"a whole private range is trusted", set("TRUSTED_PROXIES", "127.0.0.0/8,10.0.0.0/8"), []string{"warning proxies-wide"}},
		{"all private IPv6 addresses are trusted", set("TRUSTED_PROXIES", "fc00::/7"), []string{"warning proxies-wide"}},
		{"the local proxy is not trusted", set("TRUSTED_PROXIES", "10.0.0.0/16", "BASE_URL", "https://localhost:1"),
			[]string{"error proxies-loopback", "warning origin-unreachable"}},
		{"a public origin without TLS", set("BASE_URL", "http://app.invalid"),
			[]string{"error origin-dns", "warning account-missing", "warning origin-plain"}},
		{"an open listener without an origin", set("DATA_ADDR", "0.0.0.0:0"), []string{"warning origin-missing"}},
		{"open sign-ups without mail", set("SIGNUPS", "open"), []string{"warning signups-unverified"}},
		{"a typed key", func(i *installation) {
			// The database was used with the key of the folder.
			i.settings["TALLYGATE_SECRET"] = strings.Repeat("secret", 6)
		}, []string{"error key-mismatch", "error key-weak"}},
		{"authorities for webhooks", set("WEBHOOK_CA_FILE", "/nowhere/ca.pem"), []string{"error webhook-ca-file"}},
		{"a variable that is no setting", set("BASEURL", "https://app.example.com"), []string{"error variable-unknown"}},
		{"public metrics", set("METRICS_ADDR", "0.0.0.0:0"), []string{"warning metrics-public"}},
		{"one address for two listeners", func(i *installation) {
			addr := dbtest.FreeAddress(i.T)
			set("CONTROL_ADDR", addr, "DATA_ADDR", addr)(i)
		}, []string{"error listener-twice"}},
		{"an address in use", func(i *installation) {
			listener, err := net.Listen("tcp", "127.0.0.1:0")
			testkit.NoError(i, err)
			go func() {
				for conn, err := listener.Accept(); err == nil; conn, err = listener.Accept() {
					conn.Close()
				}
			}()
			i.Cleanup(func() { listener.Close() })
			set("DATA_ADDR", listener.Addr().String())(i)
		}, []string{"error listener-taken"}},
		{"an address of another machine", set("DATA_ADDR", "203.0.113.1:8081"),
			[]string{"error listener-taken", "warning origin-missing"}},
		{"no certificate authorities", func(i *installation) {
			empty := i.TempDir()
			i.settings["SSL_CERT_FILE"], i.settings["SSL_CERT_DIR"] = filepath.Join(empty, "none.pem"), empty
		}, []string{"error authorities"}},

		{"a folder that cannot be written", set("DATA_DIR", "/proc/tallygate"), []string{"error folder-writable"}},
		{"a file instead of a folder", func(i *installation) {
			file := filepath.Join(i.TempDir(), "file")
			testkit.NoError(i, os.WriteFile(file, nil, 0o600))
			set("DATA_DIR", file)(i)
		}, []string{"error folder-access"}},
		{"files of root", func(i *installation) {
			if os.Getuid() != 0 {
				testkit.Missing(i.T, "only root can change a file's owner")
			}
			testkit.NoError(i, os.Chown(i.path("secret"), 65534, 65534))
		}, []string{"error folder-owner"}},
		{"a key that others can read", func(i *installation) {
			testkit.NoError(i, os.Chmod(i.path("secret"), 0o644))
		}, []string{"warning folder-exposed"}},
		{"salts that others can read", func(i *installation) {
			testkit.NoError(i, os.MkdirAll(i.path("tallygate.sqlite-salts"), 0o700))
			testkit.NoError(i, os.Chmod(i.path("tallygate.sqlite-salts"), 0o755))
		}, []string{"warning folder-exposed"}},
		{"a damaged key", func(i *installation) {
			testkit.NoError(i, os.WriteFile(i.path("secret"), []byte("short\n"), 0o600))
		}, []string{"error key-unreadable"}},
		{"a lost key", func(i *installation) {
			testkit.NoError(i, os.Remove(i.path("secret")))
		}, []string{"error key-missing"}},
		{"another key", func(i *installation) {
			testkit.NoError(i, os.WriteFile(i.path("secret"), []byte("0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZ"), 0o600))
		}, []string{"error key-mismatch"}},
		{"a rotation without its last step", func(i *installation) {
			key, err := os.ReadFile(i.path("secret"))
			testkit.NoError(i, err)
			set("SECRET", "a-quite-random-KEY-0123456789-of-the-tests", "SECRET_PREVIOUS", strings.TrimSpace(string(key)))(i)
		}, []string{"warning key-rotation-open"}},
		{"a previous key that nothing needs", func(i *installation) {
			if status, _, log := tallygate(i.T, i.settings, "admin", "rotate-secret"); status != 0 {
				i.Fatal(log)
			}
			at := model.At(time.Now().AddDate(0, 0, -100))
			i.exec(`UPDATE settings SET value = json_set(value, '$.rotatedAt', ?) WHERE name = 'secret_rotation'`, int64(at))
		}, []string{"warning key-previous-old"}},

		{"a schema of a newer program", func(i *installation) {
			i.exec("INSERT INTO settings (name, value) VALUES ('oldest_program', '99999999_1_future') " +
				"ON CONFLICT (name) DO UPDATE SET value = excluded.value")
		}, []string{"error schema-too-new"}},
		{"a schema of an older program", func(i *installation) {
			i.exec("DELETE FROM schema_migrations WHERE name = (SELECT max(name) FROM schema_migrations)")
			set("NO_MIGRATE", "true")(i)
		}, []string{"error schema-pending"}},
		{"a database of an earlier build", func(i *installation) {
			i.exec("DELETE FROM schema_migrations WHERE name = (SELECT min(name) FROM schema_migrations)")
		}, []string{"error schema-earlier-build"}},
		{"a database of another program", func(i *installation) {
			i.exec("DROP TABLE settings")
		}, []string{"error schema"}},
		{"no worker", func(i *installation) {
			i.dueDelivery(time.Hour)
			set("ROLES", "control,data")(i)
		}, []string{"error deliveries-late"}},
		{"a worker that does nothing", func(i *installation) { i.dueDelivery(time.Hour) }, []string{"error deliveries-late"}},
		{"mails that were given up", func(i *installation) {
			now := int64(model.At(time.Now()))
			i.exec("INSERT INTO mails (account_id, recipient, kind, data, state, attempts, created_at, next_attempt_at) "+
				"VALUES (1, 'a@example.com', 'test', '{}', 'failed', 8, ?, ?)", now, now)
		}, []string{"warning mails-failing"}},
		{"a stopped channel of an operator", func(i *installation) {
			i.exec("INSERT INTO accounts (id, name, created_at) VALUES (9000, 'ops', 1)")
			i.exec("INSERT INTO users (id, email, password_hash, operator, created_at) VALUES (9000, 'op@example.com', '-', true, 1)")
			i.exec("INSERT INTO alert_channels (account_id, kind, name, language, address, hint, events, weekly, monthly, " +
				"weekly_due_at, monthly_due_at, spike_due_at, drop_due_at, quiet_from, quiet_to, quiet_zone, confirm_expires_at, confirmed_at, stopped_at, " +
				"stop_reason, operator_id, created_at) VALUES (9000, 'slack', 'ops', 'en', 'x', '', '[\"jobs_failed\"]', false, false, " +
				"0, 0, 0, 0, 0, 0, '', 0, 1, 1, 'gone', 9000, 1)")
		}, []string{"warning operator-channels"}},
		{"a clock that jumped", func(i *installation) {
			i.exec("INSERT INTO settings (name, value) VALUES ('trusted_clock', '1 2 3') ON CONFLICT (name) DO UPDATE SET value = '1 2 3'")
		}, []string{"warning clock-untrusted"}},
		{"no account on a public address", set("BASE_URL", "https://127.1.2.3.invalid", "TRUSTED_PROXIES", "127.0.0.1"),
			[]string{"error origin-dns", "warning account-missing"}},
	}, embedded)
}

// dueDelivery stores a delivery that has been due for so long.
func (i *installation) dueDelivery(since time.Duration) {
	i.Helper()
	d, err := db.Open(databaseOf(i.settings))
	testkit.NoError(i, err)
	d.UseApplicationKey([]byte(dbtest.ApplicationKey))
	site := world.New(i.T, d).Site("shop.example")
	testkit.NoError(i, d.Close())

	at := int64(model.At(time.Now().Add(-since)))
	i.exec("INSERT INTO deliveries (site_id, id, kind, event, state, attempts, created_at, next_attempt_at, body) "+
		"VALUES (?, 1, 'conversion', 'sale', 'pending', 0, ?, ?, '{}')", site.ID, at, at)
}

// TestDoctorLostLog: a SQLite log that was removed after a kill is found, and kept as evidence.
func TestDoctorLostLog(t *testing.T) {
	t.Parallel()

	c := uncopied(t) // a log that was copied as a whole is no loss
	i := &installation{T: t, settings: c.settings}
	onlyForOwner(t, i.settings["TALLYGATE_DATA_DIR"])
	testkit.NoError(t, os.Remove(i.path("tallygate.sqlite-wal")))

	for range 2 { // the first run leaves what the second one finds
		if findings, status := i.examine(); !slices.Equal(findings, []string{"error log-lost"}) || status != 1 {
			t.Errorf("status %d, %q", status, findings)
		}
	}
}

// TestDoctorFullDisk plants a disk that is nearly full.
func TestDoctorFullDisk(t *testing.T) {
	t.Parallel()

	find(t, []fault{
		{"low", func(i *installation) { i.mount("64m") }, []string{"warning disk-low"}},
		{"full", func(i *installation) { i.mount("20m") }, []string{"error disk-full"}},
	}, embedded)
}

// mount moves the data folder to a small disk.
func (i *installation) mount(size string) {
	i.Helper()
	disk := i.TempDir()
	if err := syscall.Mount("tmpfs", disk, "tmpfs", 0, "size="+size); err != nil {
		testkit.Missing(i.T, "a small disk cannot be mounted: "+err.Error())
	}
	i.Cleanup(func() {
		if err := syscall.Unmount(disk, 0); err != nil {
			i.Error(err)
		}
	})

	moved := filepath.Join(disk, "data")
	testkit.NoError(i, os.CopyFS(moved, os.DirFS(i.settings["TALLYGATE_DATA_DIR"])))
	onlyForOwner(i.T, moved)
	set("DATA_DIR", moved)(i)

	if size == "20m" {
		testkit.NoError(i, os.WriteFile(filepath.Join(disk, "filler"), make([]byte, 8<<20), 0o600))
	}
}

// TestDoctorRealRedis plants faults in the job queue.
func TestDoctorRealRedis(t *testing.T) {
	testkit.SkipLong(t, "faults of processes")
	t.Parallel()

	with := func(commands ...[]any) func(*installation) {
		return func(i *installation) {
			server := redistest.New(i.T)
			for _, command := range commands {
				// A snapshot that fails is an error here, and what one of the cases plants.
				_ = server.Client().Do(i.Context(), command...).Err()
			}
			set("REDIS_URL", server.URL())(i)
		}
	}

	find(t, []fault{
		{"it does not run", set("REDIS_URL", "redis://user:"+password+"@127.0.0.1:1/0"), []string{"error redis-unreachable"}},
		{"a password is missing", with([]any{"CONFIG", "SET", "requirepass", "x"}), []string{"error redis-unreachable"}},
		{"it evicts tasks", with([]any{"CONFIG", "SET", "maxmemory-policy", "allkeys-lru"}), []string{"error redis-eviction"}},
		{"its memory is full", with([]any{"CONFIG", "SET", "maxmemory", "1mb"}), []string{"warning redis-memory"}},
		{"it is a replica", with([]any{"REPLICAOF", "127.0.0.1", "1"}), []string{"error redis-replica"}},
		{"its snapshots fail", func(i *installation) {
			server := redistest.New(i.T)
			dir, err := server.Client().ConfigGet(i.Context(), "dir").Result()
			testkit.NoError(i, err)
			testkit.NoError(i, os.RemoveAll(dir["dir"]))
			testkit.NoError(i, server.Client().BgSave(i.Context()).Err())
			testkit.Await(i, "a failed snapshot", func() bool {
				info := server.Client().Info(i.Context(), "persistence").Val()
				return strings.Contains(info, "rdb_last_bgsave_status:err")
			})
			set("REDIS_URL", server.URL())(i)
		}, []string{"warning redis-snapshot"}},
		{"it is a cluster", func(i *installation) {
			url := redistest.NewCluster(i.T).URL()
			node, _, _ := strings.Cut(strings.TrimPrefix(url, "redis-cluster://"), ",")
			set("REDIS_URL", "redis://"+node)(i)
		}, []string{"error redis-cluster"}},
		{"it is no cluster", func(i *installation) {
			set("REDIS_URL", strings.TrimSuffix(strings.Replace(redistest.New(i.T).URL(), "redis://", "redis-cluster://", 1), "/0"))(i)
		}, []string{"error redis-cluster"}},
	}, embedded)
}

// TestDoctorMail plants faults in the mail server.
func TestDoctorMail(t *testing.T) {
	t.Parallel()

	find(t, []fault{
		{
			name:  "it does not run",
			plant: set("SMTP_URL", "smtp://localhost:1", "MAIL_FROM", "a@example.com", "BASE_URL", "http://localhost:1"),
			want:  []string{"error mail-server"},
		},
		{"it has no TLS", func(i *installation) { i.mailServer(false) }, []string{"error mail-server"}},
		{"its certificate is not trusted", func(i *installation) {
			i.mailServer(true)
			delete(i.settings, "SSL_CERT_FILE")
		}, []string{"error mail-server"}},
		{"the password is wrong", func(i *installation) {
			i.mailServer(true)
			set("SMTP_URL", strings.Replace(i.settings["TALLYGATE_SMTP_URL"], password, "wrong", 1))(i)
		}, []string{"error mail-server"}},
		{"it refuses the sender", func(i *installation) {
			i.mailServer(true)
			set("MAIL_FROM", "someone@example.org")(i)
		}, []string{"error mail-sender"}},
		{"no sender is set", func(i *installation) {
			i.mailServer(true)
			delete(i.settings, "TALLYGATE_MAIL_FROM")
		}, []string{"error mail-sender", "warning mail-from"}},
		{"no sender", func(i *installation) {
			i.mailServer(true)
			set("MAIL_FROM", "Tallygate")(i)
		}, []string{"error mail-from"}},
		{"no TLS on another machine", set("SMTP_URL", "smtp://mail.invalid:25?tls=none", "MAIL_FROM", "a@example.com", "BASE_URL", "http://localhost:1"),
			[]string{"error mail-server", "warning mail-plain"}},
		{"no links in mails", func(i *installation) {
			i.mailServer(true)
			delete(i.settings, "TALLYGATE_BASE_URL")
		}, []string{"warning origin-missing-mail"}},
	}, embedded)
}

// TestDoctorOrigins plants faults in certificates and proxies.
func TestDoctorOrigins(t *testing.T) {
	t.Parallel()

	certificate := func(name string, lifetime time.Duration) func(*installation) {
		return func(i *installation) {
			set("TRUSTED_PROXIES", "127.0.0.1", "BASE_URL", i.tlsProxy("127.0.0.1:1", name, lifetime, true))(i)
		}
	}

	find(t, []fault{
		{"an expired certificate", certificate("localhost", -time.Hour), []string{"error origin-certificate"}},
		{"a certificate for another name", certificate("other.example", 60*24*time.Hour), []string{"error origin-certificate"}},
		{"a certificate of an unknown authority", func(i *installation) {
			certificate("localhost", 60*24*time.Hour)(i)
			delete(i.settings, "SSL_CERT_FILE")
		}, []string{"error origin-certificate"}},
		{"a certificate that expires", certificate("localhost", 3*24*time.Hour), []string{"warning origin-certificate-expires"}},
		{"a proxy that hides the host", func(i *installation) { i.serveBehindProxies(false) }, []string{"error origin-host"}},
		{"a proxy that mixes the listeners up", func(i *installation) {
			i.serveBehindProxies(true)
			set("ANALYTICS_URL", i.settings["TALLYGATE_BASE_URL"])(i)
		}, []string{"error origin-answer"}},
		{"a proxy without the tools", func(i *installation) {
			i.withoutPath = "/mcp"
			i.serveBehindProxies(true)
		}, []string{"warning origin-tools"}},
		{"a proxy that forwards no address", func(i *installation) {
			i.from, i.hidesClients = hopAddress, true
			i.serveBehindProxies(true)
		}, []string{"error origin-client-address"}},
		{"a proxy with an address of its own", func(i *installation) {
			i.from = hopAddress
			i.serveBehindProxies(true)
		}, nil},
		{"the service reports an unknown proxy", func(i *installation) {
			p := i.serveBehindProxies(true)
			p.signal(syscall.SIGTERM)
			trusted := i.settings["TALLYGATE_TRUSTED_PROXIES"]
			set("TRUSTED_PROXIES", "10.0.0.0/16")(i)
			start(i.T, i.settings, []string{"control", "data"})
			set("TRUSTED_PROXIES", trusted)(i)
			i.forward("203.0.113.9")
		}, []string{"warning unknown-proxy"}},
		{"the service reports hidden clients", func(i *installation) {
			i.serveBehindProxies(true)
			i.forward("127.0.0.1")
		}, []string{"warning hidden-clients"}},
		{"the service is not ready", func(i *installation) {
			i.serveBehindProxies(true)
			i.exec("DELETE FROM schema_migrations WHERE name = (SELECT max(name) FROM schema_migrations)")
		}, []string{"error service-not-ready"}},
	}, embedded)
}

// forward sends a request of a client as a proxy does.
func (i *installation) forward(client string) {
	i.Helper()
	exchange(i, http.DefaultClient, http.MethodPost, "http://"+i.settings["TALLYGATE_CONTROL_ADDR"]+"/graphql",
		`{"query": "{ viewer { email } }"}`, map[string]string{"Content-Type": "application/json", "X-Forwarded-For": client})
}

// TestDoctorDescriptors: a low limit of open files is found.
func TestDoctorDescriptors(t *testing.T) {
	t.Parallel()

	i := embedded(t)
	cmd := newCommand(i.settings, "doctor")
	cmd.Args = []string{"sh", "-c", `ulimit -n 512; exec "$0" doctor`, cmd.Path}
	cmd.Path = "/bin/sh"
	out, _ := cmd.CombinedOutput()
	if status := cmd.ProcessState.ExitCode(); status != 3 || !strings.Contains(string(out), "512 open files") {
		t.Errorf("status %d: %s", status, out)
	}
}
