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
// generated from the tags and from Texts. An empty variable counts as unset. Beyond them package command reads only
// Go's GOGC and GOMEMLIMIT, and a few of these variables before they are parsed.
type Config struct {
	DataDir            string             `env:"TALLYGATE_DATA_DIR" default:"./tallygate-data" placeholder:"DIR"`
	DatabaseURL        DatabaseURL        `env:"TALLYGATE_DATABASE_URL" placeholder:"URL"`
	DatabaseDirectURL  DatabaseURL        `env:"TALLYGATE_DATABASE_DIRECT_URL" placeholder:"URL"`
	DatabasePool       int                `env:"TALLYGATE_DATABASE_POOL" default:"16" placeholder:"CONNECTIONS"`
	DataPool           int                `env:"TALLYGATE_DATA_POOL" default:"4" placeholder:"CONNECTIONS"`
	CellAddresses      CellAddresses      `env:"TALLYGATE_CELL_ADDRESSES" placeholder:"CELL=URL"`
	RedisURL           RedisURL           `env:"TALLYGATE_REDIS_URL" placeholder:"URL"`
	NoMigrate          bool               `env:"TALLYGATE_NO_MIGRATE"`
	Roles              []Role             `env:"TALLYGATE_ROLES" default:"control,data,worker" placeholder:"ROLE"`
	ControlAddr        Address            `env:"TALLYGATE_CONTROL_ADDR" default:"127.0.0.1:8080" placeholder:"HOST:PORT"`
	DataAddr           Address            `env:"TALLYGATE_DATA_ADDR" default:"127.0.0.1:8081" placeholder:"HOST:PORT"`
	BaseURL            Origin             `env:"TALLYGATE_BASE_URL" placeholder:"ORIGIN"`
	AnalyticsURL       Origin             `env:"TALLYGATE_ANALYTICS_URL" placeholder:"ORIGIN"`
	CaptchaURL         Origin             `env:"TALLYGATE_CAPTCHA_URL" placeholder:"ORIGIN"`
	Secret             Secret             `env:"TALLYGATE_SECRET" placeholder:"TEXT"`
	SecretPrevious     Secret             `env:"TALLYGATE_SECRET_PREVIOUS" placeholder:"TEXT"`
	AcceptLostLog      bool               `env:"TALLYGATE_ACCEPT_LOST_LOG"`
	TrustedProxies     []Network          `env:"TALLYGATE_TRUSTED_PROXIES" placeholder:"CIDR"`
	Signups            model.SignupPolicy `env:"TALLYGATE_SIGNUPS" default:"first-only"`
	DefaultSitePlan    model.Plan         `env:"TALLYGATE_DEFAULT_SITE_PLAN" default:"FREE" placeholder:"PLAN"`
	DefaultCaptchaPlan model.CaptchaPlan  `env:"TALLYGATE_DEFAULT_CAPTCHA_PLAN" default:"FREE" placeholder:"PLAN"`
	CaptchaDifficulty  uint32             `env:"TALLYGATE_CAPTCHA_DIFFICULTY" default:"524288" placeholder:"HASHES"`
	CaptchaTestSitekey bool               `env:"TALLYGATE_CAPTCHA_TEST_SITEKEY" default:"true" negatable:""`
	FloodBurst         int                `env:"TALLYGATE_FLOOD_BURST" default:"1000" placeholder:"HITS"`
	FloodRate          int                `env:"TALLYGATE_FLOOD_RATE" default:"10" placeholder:"HITS"`
	ServerFloodBurst   int                `env:"TALLYGATE_SERVER_FLOOD_BURST" default:"10000" placeholder:"EVENTS"`
	ServerFloodRate    int                `env:"TALLYGATE_SERVER_FLOOD_RATE" default:"50" placeholder:"EVENTS"`
	HitWriters         int                `env:"TALLYGATE_HIT_WRITERS" default:"1" placeholder:"NUMBER"`
	RetentionMonths    int                `env:"TALLYGATE_RETENTION_MONTHS" default:"0" placeholder:"MONTHS"`
	ReportMonths       int                `name:"report-retention-months" env:"TALLYGATE_REPORT_RETENTION_MONTHS" default:"0" placeholder:"MONTHS"`
	AllowLocalDomains  bool               `env:"TALLYGATE_ALLOW_LOCAL_DOMAINS"`
	WebhookAllowNets   []Network          `env:"TALLYGATE_WEBHOOK_ALLOW_NETS" placeholder:"CIDR"`
	WebhookCAFile      string             `env:"TALLYGATE_WEBHOOK_CA_FILE" placeholder:"FILE"`
	SMTPURL            SMTPURL            `name:"smtp-url" env:"TALLYGATE_SMTP_URL" placeholder:"URL"`
	MailFrom           string             `env:"TALLYGATE_MAIL_FROM" default:"noreply@localhost" placeholder:"ADDRESS"`
	DrainDelay         time.Duration      `env:"TALLYGATE_DRAIN_DELAY" default:"0s" placeholder:"TIME"`
	MetricsAddr        Address            `env:"TALLYGATE_METRICS_ADDR" placeholder:"HOST:PORT"`
	HealthAddr         Address            `env:"TALLYGATE_HEALTH_ADDR" placeholder:"HOST:PORT"`
	AccessLog          bool               `env:"TALLYGATE_ACCESS_LOG"`
	Traces             bool               `env:"TALLYGATE_TRACES"`
	GraphiQL           bool               `name:"graphiql" env:"TALLYGATE_GRAPHIQL" default:"true" negatable:""`
	Introspection      bool               `env:"TALLYGATE_INTROSPECTION" default:"true" negatable:""`
	LogLevel           slog.Level         `env:"TALLYGATE_LOG_LEVEL" default:"info" placeholder:"LEVEL"`
	LogFormat          string             `env:"TALLYGATE_LOG_FORMAT" default:"text" enum:"text,json"`
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

	if c.HitWriters < 1 || c.HitWriters > maxHitWriters {
		return fmt.Errorf("--hit-writers: %d is not from 1 to %d", c.HitWriters, maxHitWriters)
	}
	if c.HitWriters > 1 && c.DatabaseURL == "" {
		return errors.New("--hit-writers: more than one requires PostgreSQL: SQLite has one writer at a time")
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

// maxHitWriters bounds the connections that a process opens for hits.
const maxHitWriters = 16

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
