// Package config is the configuration of the program: every setting with its variable, default,
// limits and help. The commands embed Config, and package command fills it in from the flags and the
// environment. Config reads and changes nothing outside itself.
package config

import (
	"encoding"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/netip"
	"net/url"
	"slices"
	"strings"
	"time"

	"github.com/tallygate/tallygate/dataplane/captcha/difficulty"
	"github.com/tallygate/tallygate/db"
	"github.com/tallygate/tallygate/db/model"
	"github.com/tallygate/tallygate/jobs/mail"
	"github.com/tallygate/tallygate/jobs/queue"
)

// Config holds all settings of a serving process. Each is a flag or an environment variable;
// `tallygate serve --help` lists them with defaults and limits, and docs/configuration.md is
// generated from the tags. An empty variable counts as unset. Beyond them package command reads only
// Go's GOGC and GOMEMLIMIT, and a few of these variables before they are parsed.
type Config struct {
	DataDir            string             `env:"TALLYGATE_DATA_DIR" default:"./tallygate-data" placeholder:"DIR" help:"Folder of the embedded database and the application key."`
	DatabaseURL        DatabaseURL        `env:"TALLYGATE_DATABASE_URL" placeholder:"URL" help:"PostgreSQL 15 or newer, as postgres://user:password@host:port/name. Empty: a SQLite file in the data folder." docs:"Several processes may share either database, SQLite on one machine only. Each process follows changes made by another one within a second."`
	DatabaseDirectURL  DatabaseURL        `env:"TALLYGATE_DATABASE_DIRECT_URL" placeholder:"URL" help:"Address of the same PostgreSQL database without a connection pooler in between, if database-url leads to one. Empty: as database-url." docs:"See [Connection poolers](operations.md#connection-poolers)."`
	DatabasePool       int                `env:"TALLYGATE_DATABASE_POOL" default:"16" placeholder:"CONNECTIONS" help:"Most connections of one process to PostgreSQL for the control plane and the worker: 2 to 1000."`
	DataPool           int                `env:"TALLYGATE_DATA_POOL" default:"4" placeholder:"CONNECTIONS" help:"Most connections of one process to PostgreSQL for what the data plane looks up: 2 to 1000. Each lane of hits, the captcha and the watch of changes have one more each."`
	CellAddresses      CellAddresses      `env:"TALLYGATE_CELL_ADDRESSES" placeholder:"CELL=URL" help:"Addresses that store the hits and captcha claims of a cell instead of database-url, as 2=postgres://user:password@host:port/name,3=postgres://… On Citus: a worker's." docs:"See [Addresses of cells](operations.md#addresses-of-cells)."`
	RedisURL           RedisURL           `env:"TALLYGATE_REDIS_URL" placeholder:"URL" help:"Redis for the job queue: redis://host:port/0, redis-sentinel://host,host/0?master=name or redis-cluster://host,host, or with rediss for TLS. Empty: a queue inside this process." docs:"Version 6.2 or newer, with the setting maxmemory-policy noeviction. The Sentinels' own credentials are sentinel_user and sentinel_password in the query."`
	NoMigrate          bool               `env:"TALLYGATE_NO_MIGRATE" help:"Do not change the database's schema at the start, and refuse to start if a migration is pending. For a role of PostgreSQL without the right to create tables." docs:"See [Migrations](operations.md#migrations)."`
	Roles              []Role             `env:"TALLYGATE_ROLES" default:"control,data,worker" placeholder:"ROLE" help:"Roles of this process: any of control, data, worker."`
	ControlAddr        Address            `env:"TALLYGATE_CONTROL_ADDR" default:"127.0.0.1:8080" placeholder:"HOST:PORT" help:"Address of the control plane: accounts, GraphQL, downloads. Port 0 picks a free one."`
	DataAddr           Address            `env:"TALLYGATE_DATA_ADDR" default:"127.0.0.1:8081" placeholder:"HOST:PORT" help:"Address of the data plane: scripts, hits, captcha. Port 0 picks a free one."`
	BaseURL            Origin             `env:"TALLYGATE_BASE_URL" placeholder:"ORIGIN" help:"Public origin of the control plane, for instance https://app.example.com. Empty: http and the control address."`
	AnalyticsURL       Origin             `env:"TALLYGATE_ANALYTICS_URL" placeholder:"ORIGIN" help:"Public origin of the script and the analytics endpoints. Empty: http and the data address."`
	CaptchaURL         Origin             `env:"TALLYGATE_CAPTCHA_URL" placeholder:"ORIGIN" help:"Public origin of the captcha endpoints. Empty: as analytics-url."`
	Secret             Secret             `env:"TALLYGATE_SECRET" placeholder:"TEXT" help:"Application key, 32 to 1024 characters, the same in every process on one database. Empty: a key that is created in the data folder."`
	SecretPrevious     Secret             `env:"TALLYGATE_SECRET_PREVIOUS" placeholder:"TEXT" help:"Previous application key while it is being replaced, 32 to 1024 characters: still accepted, and used until tallygate admin rotate-secret has run. Empty: the file secret.previous in the data folder, if the key is a file there." docs:"See [Change the application key](operations.md#change-the-application-key)."`
	AcceptLostLog      bool               `env:"TALLYGATE_ACCEPT_LOST_LOG" help:"Start although the log of the embedded database was removed or replaced after a kill, without the commits in it." docs:"See [After a kill](operations.md#after-a-kill)."`
	TrustedProxies     []Network          `env:"TALLYGATE_TRUSTED_PROXIES" placeholder:"CIDR" help:"Proxies whose X-Forwarded-For is trusted, as addresses or networks. A network of all addresses (/0) is refused. Empty: none." docs:"IPv4-mapped networks count as IPv4. See [Proxies](operations.md#proxies)."`
	Signups            model.SignupPolicy `env:"TALLYGATE_SIGNUPS" default:"first-only" help:"Permitted sign-ups: first-only (only the first account, the operator's), open (any visitor; the e-mail address is verified if there is a mail server) or closed."`
	DefaultSitePlan    model.Plan         `env:"TALLYGATE_DEFAULT_SITE_PLAN" default:"FREE" placeholder:"PLAN" help:"Plan of new sites: FREE (10,000 page views a month), PRO_100K, PRO_500K, PRO_1M, PRO_2M or PRO_5M."`
	DefaultCaptchaPlan model.CaptchaPlan  `env:"TALLYGATE_DEFAULT_CAPTCHA_PLAN" default:"FREE" placeholder:"PLAN" help:"Captcha plan of new accounts: FREE (10,000 verifications a month), PRO_100K, PRO_250K, PRO_500K, PRO_1M or ENTERPRISE (unlimited)."`
	CaptchaDifficulty  uint32             `env:"TALLYGATE_CAPTCHA_DIFFICULTY" default:"524288" placeholder:"HASHES" help:"Base difficulty of a captcha challenge, in expected hashes: 1024 to 16777216."`
	CaptchaTestSitekey bool               `env:"TALLYGATE_CAPTCHA_TEST_SITEKEY" default:"true" negatable:"" help:"Accept the captcha's public test sitekey and its secret. Turn it off where no form is tested."`
	FloodBurst         int                `env:"TALLYGATE_FLOOD_BURST" default:"1000" placeholder:"HITS" help:"Hits of one network (IPv4 /24, IPv6 /64) for one site that are stored in a burst: 1 to 1000000000. Further ones are answered but not stored or counted. 0 turns the limit off." docs:"See [the flood limit](adr/014-flood-limit.md)."`
	FloodRate          int                `env:"TALLYGATE_FLOOD_RATE" default:"10" placeholder:"HITS" help:"Hits a second by which a network's burst refills: 1 to 1000000."`
	ServerFloodBurst   int                `env:"TALLYGATE_SERVER_FLOOD_BURST" default:"10000" placeholder:"EVENTS" help:"Server-side events of one site that are stored in a burst: 1 to 1000000000. Further ones are answered but not stored or counted. 0 turns the limit off." docs:"See [the flood limit](adr/014-flood-limit.md)."`
	ServerFloodRate    int                `env:"TALLYGATE_SERVER_FLOOD_RATE" default:"50" placeholder:"EVENTS" help:"Server-side events a second by which a site's burst refills: 1 to 1000000."`
	WriterLanes        int                `env:"TALLYGATE_WRITER_LANES" default:"1" placeholder:"LANES" help:"Batches of hits that one process commits at the same time, each for sites of its own: 1 to 16. More than 1 requires PostgreSQL, and serves where it has more processors than one connection uses."`
	RetentionMonths    int                `env:"TALLYGATE_RETENTION_MONTHS" default:"0" placeholder:"MONTHS" help:"Whole months before the current one for which visits, page views and events are kept: 1 to 120. 0 keeps everything. Months are counted from the newest stored row."`
	ReportMonths       int                `name:"report-retention-months" env:"TALLYGATE_REPORT_RETENTION_MONTHS" default:"0" placeholder:"MONTHS" help:"Whole months before the current one for which reports are kept: 1 to 120. 0 keeps everything. Reports do not need the visits, page views and events that they were counted from."`
	AllowLocalDomains  bool               `env:"TALLYGATE_ALLOW_LOCAL_DOMAINS" help:"Accept names under .localhost as a site's domain. For demos and tests."`
	WebhookAllowNets   []Network          `env:"TALLYGATE_WEBHOOK_ALLOW_NETS" placeholder:"CIDR" help:"Networks that webhooks may call in addition to the internet, on any port. Empty: none."`
	WebhookCAFile      string             `env:"TALLYGATE_WEBHOOK_CA_FILE" placeholder:"FILE" help:"PEM file of authorities that webhooks trust in addition to the system's."`
	SMTPURL            SMTPURL            `name:"smtp-url" env:"TALLYGATE_SMTP_URL" placeholder:"URL" help:"Mail server, as smtp://user:password@host:587 (STARTTLS) or smtps://user:password@host:465. Empty: no mail is sent; the log names each mail without its link." docs:"The query tls=none turns TLS off, for a server on the same machine."`
	MailFrom           string             `env:"TALLYGATE_MAIL_FROM" default:"noreply@localhost" placeholder:"ADDRESS" help:"Sender of mails."`
	DrainDelay         time.Duration      `env:"TALLYGATE_DRAIN_DELAY" default:"0s" placeholder:"TIME" help:"Time to continue serving after the signal to stop, while /readyz responds with 503, so that load balancers stop sending before the listeners close: 0s to 60s. Choose slightly more than their check interval."`
	MetricsAddr        Address            `env:"TALLYGATE_METRICS_ADDR" placeholder:"HOST:PORT" help:"Address of /metrics for Prometheus, in processes of any role. It must not be public. Empty: none." docs:"See [Metrics](operations.md#metrics)."`
	HealthAddr         Address            `env:"TALLYGATE_HEALTH_ADDR" placeholder:"HOST:PORT" help:"Further address of /healthz and /readyz, which the listeners of the control plane, the data plane and the metrics have as well. For processes with the worker role alone. Empty: none."`
	AccessLog          bool               `env:"TALLYGATE_ACCESS_LOG" help:"Write a line of JSON to the standard output for each request to the control and the data plane." docs:"See [Access log](operations.md#access-log)."`
	Traces             bool               `env:"TALLYGATE_TRACES" help:"Send OpenTelemetry traces. The address and all other settings are the standard ones, such as OTEL_EXPORTER_OTLP_ENDPOINT." docs:"See [Traces](operations.md#traces)."`
	GraphiQL           bool               `name:"graphiql" env:"TALLYGATE_GRAPHIQL" default:"true" negatable:"" help:"Serve GraphiQL, a page to try the schema with, at /graphql."`
	Introspection      bool               `env:"TALLYGATE_INTROSPECTION" default:"true" negatable:"" help:"Permit callers to read the GraphQL schema. GraphiQL needs it for its help."`
	LogLevel           slog.Level         `env:"TALLYGATE_LOG_LEVEL" default:"info" placeholder:"LEVEL" help:"Lowest level of log lines: debug, info, warn or error."`
	LogFormat          string             `env:"TALLYGATE_LOG_FORMAT" default:"text" enum:"text,json" help:"Format of log lines: text or json."`
}

// Has reports whether the process has a role.
func (c *Config) Has(r Role) bool { return slices.Contains(c.Roles, r) }

// Validate checks limits and combinations of settings.
func (c *Config) Validate() error {
	if len(c.Roles) == 0 {
		return errors.New("--roles: name at least one of control, data, worker")
	}
	if c.SecretPrevious != "" && c.SecretPrevious == c.Secret {
		return errors.New("--secret-previous: this is the same key as --secret")
	}
	if _, ok := c.DefaultSitePlan.MonthlyPageviews(); !ok {
		return fmt.Errorf("--default-site-plan: %q is not a plan with a fixed volume", c.DefaultSitePlan)
	}
	if _, ok := c.DefaultCaptchaPlan.Quota(); !ok {
		return fmt.Errorf("--default-captcha-plan: %q is not a captcha plan", c.DefaultCaptchaPlan)
	}

	for _, network := range c.TrustedProxies {
		if network.Bits() == 0 {
			return fmt.Errorf("--trusted-proxies: %s trusts every address, so that any client could claim any other: "+
				"name the addresses of your proxies", network)
		}
	}

	if c.CaptchaDifficulty < difficulty.Min || c.CaptchaDifficulty > difficulty.Max {
		return fmt.Errorf("--captcha-difficulty: %d is not from %d to %d", c.CaptchaDifficulty, difficulty.Min, difficulty.Max)
	}
	if err := checkFlood("flood", c.FloodBurst, c.FloodRate); err != nil {
		return err
	}
	if err := checkFlood("server-flood", c.ServerFloodBurst, c.ServerFloodRate); err != nil {
		return err
	}

	if c.WriterLanes < 1 || c.WriterLanes > maxWriterLanes {
		return fmt.Errorf("--writer-lanes: %d is not from 1 to %d", c.WriterLanes, maxWriterLanes)
	}
	if c.WriterLanes > 1 && c.DatabaseURL == "" {
		return errors.New("--writer-lanes: more than one requires PostgreSQL: SQLite has one writer at a time")
	}

	for name, connections := range map[string]int{"database-pool": c.DatabasePool, "data-pool": c.DataPool} {
		if connections < minPool || connections > maxPool {
			return fmt.Errorf("--%s: %d is not from %d to %d", name, connections, minPool, maxPool)
		}
	}
	if c.DatabaseDirectURL != "" && c.DatabaseURL == "" {
		return errors.New("--database-direct-url: requires --database-url")
	}
	if len(c.CellAddresses.URLs) > 0 && c.DatabaseURL == "" {
		return errors.New("--cell-addresses: requires --database-url: SQLite has one cell")
	}

	if c.DrainDelay < 0 || c.DrainDelay > maxDrainDelay {
		return fmt.Errorf("--drain-delay: %v is not from 0s to %v", c.DrainDelay, maxDrainDelay)
	}
	if c.RetentionMonths < 0 || c.RetentionMonths > maxRetentionMonths {
		return fmt.Errorf("--retention-months: %d is not from 0 to %d", c.RetentionMonths, maxRetentionMonths)
	}
	if c.ReportMonths < 0 || c.ReportMonths > maxRetentionMonths {
		return fmt.Errorf("--report-retention-months: %d is not from 0 to %d", c.ReportMonths, maxRetentionMonths)
	}

	return nil
}

// The largest flood limits. At one hit a second the largest burst refills in 32 years, which
// time.Duration can represent.
const (
	maxFloodBurst = 1_000_000_000
	maxFloodRate  = 1_000_000
)

// checkFlood checks the settings of a flood limit, which begin with name.
func checkFlood(name string, burst, rate int) error {
	if burst < 0 || burst > maxFloodBurst {
		return fmt.Errorf("--%s-burst: %d is not from 0 to %d", name, burst, maxFloodBurst)
	}
	if rate < 1 || rate > maxFloodRate {
		return fmt.Errorf("--%s-rate: %d is not from 1 to %d", name, rate, maxFloodRate)
	}
	return nil
}

// maxWriterLanes bounds the connections that a process opens for hits.
const maxWriterLanes = 16

// The sizes of a pool. One connection alone could wait for itself: some calls read while they write.
const (
	minPool = 2
	maxPool = 1_000
)

// maxRetentionMonths is the largest limited retention, ten years.
const maxRetentionMonths = 120

// maxDrainDelay is the longest wait between the signal to stop and the stop.
const maxDrainDelay = time.Minute

// UsesDataFolder reports whether the process keeps its database or its application key in the data
// folder.
func (c *Config) UsesDataFolder() bool { return c.DatabaseURL == "" || c.Secret == "" }

// DatabaseOptions returns what opening the database takes besides its URL.
func (c *Config) DatabaseOptions() db.Options {
	return db.Options{
		DirectURL: string(c.DatabaseDirectURL), Connections: c.DatabasePool, DataConnections: c.DataPool,
		CellURLs: c.CellAddresses.URLs,
	}
}

// Database returns the URL of the configured or embedded database.
func (c *Config) Database() string {
	if c.DatabaseURL != "" {
		return string(c.DatabaseURL)
	}
	return db.EmbeddedURL(c.DataDir)
}

// Role is a part of the service that a process runs.
type Role string

// The roles. Each may run in any number of processes, alone or with others.
const (
	RoleControl Role = "control"
	RoleData    Role = "data"
	RoleWorker  Role = "worker"
)

// These types validate themselves when they are parsed, so that an invalid value stops the start
// with the setting's name.
var _ = []encoding.TextUnmarshaler{new(Role), new(Address), new(Origin), new(DatabaseURL), new(CellAddresses), new(RedisURL),
	new(SMTPURL), new(Secret), new(Network)}

// UnmarshalText parses a role.
func (r *Role) UnmarshalText(text []byte) error {
	*r = Role(strings.TrimSpace(string(text)))
	if *r != RoleControl && *r != RoleData && *r != RoleWorker {
		return fmt.Errorf("%q is not one of control, data, worker", text)
	}
	return nil
}

// Address is a host and port to listen on.
type Address string

// UnmarshalText parses an address.
func (a *Address) UnmarshalText(text []byte) error {
	if _, err := net.ResolveTCPAddr("tcp", string(text)); err != nil || !strings.Contains(string(text), ":") {
		return fmt.Errorf("%q is not host:port", text)
	}
	*a = Address(text)
	return nil
}

// DatabaseURL is the address of a PostgreSQL server.
type DatabaseURL string

// UnmarshalText parses a database address. Its errors do not contain it, because it may hold a
// password.
func (d *DatabaseURL) UnmarshalText(text []byte) error {
	if !hasScheme(string(text), "postgres", "postgresql") {
		return errors.New("must start with postgres://")
	}
	*d = DatabaseURL(text)
	return nil
}

// RedisURL is the address of a Redis server, or of several.
type RedisURL string

// UnmarshalText parses a Redis address. Its errors do not contain it, because it may hold a
// password.
func (r *RedisURL) UnmarshalText(text []byte) error {
	if err := queue.CheckURL(string(text)); err != nil {
		return err
	}
	*r = RedisURL(text)
	return nil
}

// SMTPURL is the address of a mail server.
type SMTPURL string

// UnmarshalText parses a mail server's address. Its errors do not contain it, because it may hold a
// password.
func (s *SMTPURL) UnmarshalText(text []byte) error {
	if _, err := mail.NewServer(string(text), "noreply@localhost", nil); err != nil {
		return err
	}
	*s = SMTPURL(text)
	return nil
}

func hasScheme(s string, schemes ...string) bool {
	u, err := url.Parse(s)
	return err == nil && u.Host != "" && slices.Contains(schemes, u.Scheme)
}

// Secret is the application key.
type Secret string

// UnmarshalText parses an application key. Its errors do not contain it.
func (s *Secret) UnmarshalText(text []byte) error {
	if n := len(text); n < 32 || n > 1024 {
		return errors.New("must have 32 to 1024 characters")
	}
	*s = Secret(text)
	return nil
}

// Network is a range of addresses; a single address is a range of one.
type Network struct{ netip.Prefix }

// Prefixes returns the prefixes of networks, in the same order.
func Prefixes(networks []Network) []netip.Prefix {
	p := make([]netip.Prefix, len(networks))
	for i, n := range networks {
		p[i] = n.Prefix
	}
	return p
}

// The prefixes of networks that hold more than the proxies of one installation, in bits. An IPv4 /8 is
// a whole private range, or the largest network that one organisation has. IPv6 has no such network of
// /8: its providers have /19 at most, and lists of proxies of large content networks name up to /29. So
// a /16 or larger is a whole class of addresses, such as the private fd00::/8.
const (
	wideBits4 = 8
	wideBits6 = 16
)

// IsWide reports whether a network of trusted proxies is so large that it probably contains clients.
// They could claim any address, and would have no limits by network.
func (n Network) IsWide() bool {
	if n.Addr().Is4() {
		return n.Bits() <= wideBits4 && !n.isLoopback()
	}
	return n.Bits() <= wideBits6
}

// isLoopback reports whether all addresses of an IPv4 network are of this machine.
func (n Network) isLoopback() bool { return n.Addr().IsLoopback() && n.Bits() >= wideBits4 }

// UnmarshalText parses a network or an address.
func (n *Network) UnmarshalText(text []byte) error {
	s := strings.TrimSpace(string(text))
	if addr, err := netip.ParseAddr(s); err == nil {
		n.Prefix = netip.PrefixFrom(addr.Unmap(), addr.Unmap().BitLen())
		return nil
	}

	prefix, err := netip.ParsePrefix(s)
	if err != nil {
		return fmt.Errorf("%q is not an address or a network such as 10.1.2.0/24", text)
	}
	if prefix = model.UnmapNetwork(prefix); !prefix.IsValid() {
		return fmt.Errorf("%q is an IPv4-mapped network of less than 96 bits: write the IPv4 network, such as 10.1.2.0/24", text)
	}

	n.Prefix = prefix.Masked()
	return nil
}
