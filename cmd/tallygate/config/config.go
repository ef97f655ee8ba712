// Package config is the configuration of the program: every setting with its variable, default,
// limits and help. The commands embed Config, and package command fills it in from the flags and
// the environment. Config reads and changes nothing outside itself.
package config

import (
	"errors"
	"fmt"
	"net"
	"net/netip"
	"reflect"
	"slices"
	"strings"
	"time"

	"github.com/jessevdk/go-flags"

	"github.com/tallygate/tallygate/dataplane/captcha/difficulty"
	"github.com/tallygate/tallygate/db"
	"github.com/tallygate/tallygate/db/model"
	"github.com/tallygate/tallygate/db/pgpool"
	"github.com/tallygate/tallygate/jobs/mail"
	"github.com/tallygate/tallygate/jobs/queue"
)

// Config holds all settings of a serving process. Each is a flag or an environment variable;
// `tallygate --help-settings` lists them with defaults and limits, and docs/operator/configuration.md is
// generated from the tags and from Texts. An empty variable counts as unset. Beyond them package
// command reads only Go's GOGC and GOMEMLIMIT, and a few of these variables before they are parsed.
type Config struct {
	DataDir            string             `long:"data-dir" env:"TALLYGATE_DATA_DIR" default:"./tallygate-data" value-name:"DIR" unquote:"false" section:"Database"`
	DatabaseURL        DatabaseURL        `long:"database-url" env:"TALLYGATE_DATABASE_URL" value-name:"URL"`
	DatabaseDirectURL  DatabaseURL        `long:"database-direct-url" env:"TALLYGATE_DATABASE_DIRECT_URL" value-name:"URL"`
	DatabasePool       int                `long:"database-pool" env:"TALLYGATE_DATABASE_POOL" default:"16" value-name:"CONNECTIONS"`
	DataPool           int                `long:"data-pool" env:"TALLYGATE_DATA_POOL" default:"4" value-name:"CONNECTIONS"`
	CellAddresses      CellAddresses      `long:"cell-addresses" env:"TALLYGATE_CELL_ADDRESSES" value-name:"CELL=URL"`
	RedisURL           RedisURL           `long:"redis-url" env:"TALLYGATE_REDIS_URL" value-name:"URL"`
	NoMigrate          bool               `long:"no-migrate" env:"TALLYGATE_NO_MIGRATE"`
	Roles              Roles              `long:"roles" env:"TALLYGATE_ROLES" default:"control,data,worker" value-name:"ROLE,..." section:"Addresses"`
	Processes          string             `long:"processes" env:"TALLYGATE_PROCESSES" default:"two" value-name:"NUMBER" choice:"two" choice:"one"`
	ControlAddr        Address            `long:"control-addr" env:"TALLYGATE_CONTROL_ADDR" default:"127.0.0.1:8080" value-name:"HOST:PORT"`
	DataAddr           Address            `long:"data-addr" env:"TALLYGATE_DATA_ADDR" default:"127.0.0.1:8081" value-name:"HOST:PORT"`
	BaseURL            Origin             `long:"base-url" env:"TALLYGATE_BASE_URL" value-name:"ORIGIN"`
	AnalyticsURL       Origin             `long:"analytics-url" env:"TALLYGATE_ANALYTICS_URL" value-name:"ORIGIN"`
	CaptchaURL         Origin             `long:"captcha-url" env:"TALLYGATE_CAPTCHA_URL" value-name:"ORIGIN"`
	TLS                string             `long:"tls" env:"TALLYGATE_TLS" default:"off" value-name:"MODE" choice:"off" choice:"auto" section:"TLS"`
	TLSAddr            Address            `long:"tls-addr" env:"TALLYGATE_TLS_ADDR" default:":443" value-name:"HOST:PORT"`
	TLSHTTPAddr        Address            `long:"tls-http-addr" env:"TALLYGATE_TLS_HTTP_ADDR" default:":80" value-name:"HOST:PORT"`
	TLSEmail           string             `long:"tls-email" env:"TALLYGATE_TLS_EMAIL" value-name:"ADDRESS" unquote:"false"`
	TLSDirectory       string             `long:"tls-acme-directory" env:"TALLYGATE_TLS_ACME_DIRECTORY" default:"https://acme-v02.api.letsencrypt.org/directory" value-name:"URL" unquote:"false"`
	TLSCAFile          string             `long:"tls-acme-ca-file" env:"TALLYGATE_TLS_ACME_CA_FILE" value-name:"FILE" unquote:"false"`
	Secret             Secret             `long:"secret" env:"TALLYGATE_SECRET" value-name:"TEXT" unquote:"false" section:"Application key"`
	SecretPrevious     Secret             `long:"secret-previous" env:"TALLYGATE_SECRET_PREVIOUS" value-name:"TEXT" unquote:"false"`
	AcceptLostLog      bool               `long:"accept-lost-log" env:"TALLYGATE_ACCEPT_LOST_LOG"`
	TrustedProxies     Networks           `long:"trusted-proxies" env:"TALLYGATE_TRUSTED_PROXIES" value-name:"CIDR,..." section:"Proxies"`
	Signups            model.SignupPolicy `long:"signups" env:"TALLYGATE_SIGNUPS" default:"first-only" value-name:"POLICY" section:"Accounts and plans"`
	DefaultSitePlan    model.Plan         `long:"default-site-plan" env:"TALLYGATE_DEFAULT_SITE_PLAN" value-name:"PLAN"`
	DefaultCaptchaPlan model.CaptchaPlan  `long:"default-captcha-plan" env:"TALLYGATE_DEFAULT_CAPTCHA_PLAN" value-name:"PLAN"`
	OIDCIssuer         string             `long:"oidc-issuer" env:"TALLYGATE_OIDC_ISSUER" value-name:"URL" section:"Sign-in through a provider"`
	OIDCClientID       string             `long:"oidc-client-id" env:"TALLYGATE_OIDC_CLIENT_ID" value-name:"TEXT" unquote:"false"`
	OIDCClientSecret   ClientSecret       `long:"oidc-client-secret" env:"TALLYGATE_OIDC_CLIENT_SECRET" value-name:"TEXT" unquote:"false"`
	OIDCName           string             `long:"oidc-name" env:"TALLYGATE_OIDC_NAME" default:"OpenID Connect" value-name:"TEXT" unquote:"false"`
	OIDCTrustEmails    bool               `long:"oidc-trust-emails" env:"TALLYGATE_OIDC_TRUST_EMAILS"`
	OIDCCAFile         string             `long:"oidc-ca-file" env:"TALLYGATE_OIDC_CA_FILE" value-name:"FILE" unquote:"false"`
	OIDCAllowNets      Networks           `long:"oidc-allow-nets" env:"TALLYGATE_OIDC_ALLOW_NETS" value-name:"CIDR,..."`
	CaptchaDifficulty  uint32             `long:"captcha-difficulty" env:"TALLYGATE_CAPTCHA_DIFFICULTY" default:"524288" value-name:"HASHES" section:"Captcha"`
	CaptchaTestSitekey bool               `long:"captcha-test-sitekey" env:"TALLYGATE_CAPTCHA_TEST_SITEKEY" defaults:"true" value-name:"BOOL"`
	FloodBurst         int                `long:"flood-burst" env:"TALLYGATE_FLOOD_BURST" default:"1000" value-name:"HITS" section:"Hits"`
	FloodRate          int                `long:"flood-rate" env:"TALLYGATE_FLOOD_RATE" default:"10" value-name:"HITS"`
	ServerFloodBurst   int                `long:"server-flood-burst" env:"TALLYGATE_SERVER_FLOOD_BURST" default:"10000" value-name:"EVENTS"`
	ServerFloodRate    int                `long:"server-flood-rate" env:"TALLYGATE_SERVER_FLOOD_RATE" default:"50" value-name:"EVENTS"`
	GeoFile            string             `long:"geo-file" env:"TALLYGATE_GEO_FILE" value-name:"FILE" unquote:"false" section:"Countries and lists"`
	ReferrerSpamFile   string             `long:"referrer-spam-file" env:"TALLYGATE_REFERRER_SPAM_FILE" value-name:"FILE" unquote:"false"`
	DataCentreFile     string             `long:"data-centre-file" env:"TALLYGATE_DATA_CENTRE_FILE" value-name:"FILE" unquote:"false"`
	RetentionMonths    int                `long:"retention-months" env:"TALLYGATE_RETENTION_MONTHS" default:"0" value-name:"MONTHS" section:"Retention"`
	ReportMonths       int                `long:"report-retention-months" env:"TALLYGATE_REPORT_RETENTION_MONTHS" default:"0" value-name:"MONTHS"`
	AllowLocalDomains  bool               `long:"allow-local-domains" env:"TALLYGATE_ALLOW_LOCAL_DOMAINS" section:"Sites and webhooks"`
	WebhookAllowNets   Networks           `long:"webhook-allow-nets" env:"TALLYGATE_WEBHOOK_ALLOW_NETS" value-name:"CIDR,..."`
	WebhookCAFile      string             `long:"webhook-ca-file" env:"TALLYGATE_WEBHOOK_CA_FILE" value-name:"FILE" unquote:"false"`
	SMTPURL            SMTPURL            `long:"smtp-url" env:"TALLYGATE_SMTP_URL" value-name:"URL" section:"Mail"`
	MailFrom           string             `long:"mail-from" env:"TALLYGATE_MAIL_FROM" default:"noreply@localhost" value-name:"ADDRESS" unquote:"false"`
	DrainDelay         time.Duration      `long:"drain-delay" env:"TALLYGATE_DRAIN_DELAY" default:"0s" value-name:"TIME" section:"Operation"`
	MetricsAddr        Address            `long:"metrics-addr" env:"TALLYGATE_METRICS_ADDR" value-name:"HOST:PORT"`
	HealthAddr         Address            `long:"health-addr" env:"TALLYGATE_HEALTH_ADDR" value-name:"HOST:PORT"`
	AccessLog          bool               `long:"access-log" env:"TALLYGATE_ACCESS_LOG"`
	GraphiQL           bool               `long:"graphiql" env:"TALLYGATE_GRAPHIQL" defaults:"true" value-name:"BOOL" section:"GraphQL"`
	Introspection      bool               `long:"introspection" env:"TALLYGATE_INTROSPECTION" defaults:"true" value-name:"BOOL"`
	LogLevel           LogLevel           `long:"log-level" env:"TALLYGATE_LOG_LEVEL" default:"info" value-name:"LEVEL" section:"Log"`
	LogFormat          string             `long:"log-format" env:"TALLYGATE_LOG_FORMAT" default:"text" value-name:"FORMAT" choice:"text" choice:"json"`
}

// Has reports whether the process has a role.
func (c *Config) Has(r Role) bool { return slices.Contains(c.Roles, r) }

// ProcessesTwo is the default of Config.Processes. With any other value, one process has all
// configured roles.
const ProcessesTwo = "two"

// Splits reports whether the role data gets the process that was started, and the other roles a
// child process.
func (c *Config) Splits() bool {
	return c.Processes == ProcessesTwo && c.Has(RoleData) && len(c.otherRoles()) > 0
}

// otherRoles returns the roles of the child process.
func (c *Config) otherRoles() Roles {
	return slices.DeleteFunc(slices.Clone(c.Roles), func(r Role) bool { return r == RoleData })
}

// Split returns the settings of the two processes of settings that Splits. The child shares no
// listener with this process, which has prepared the database before the child starts.
func (c *Config) Split() (own, child *Config) {
	first, second := *c, *c
	first.Roles = Roles{RoleData}

	second.Roles, second.Processes = c.otherRoles(), "one"
	second.MetricsAddr, second.HealthAddr = "", ""
	second.NoMigrate = true
	if c.UsesTLS() {
		// The child's clients come through this process.
		second.TLS = "off"
		second.TrustedProxies = append(slices.Clone(c.TrustedProxies), c.ControlAddr.sources()...)
	}
	return &first, &second
}

// sources returns the networks from which this machine itself calls a listener: loopback, and the
// listener's own address.
func (a Address) sources() Networks {
	own := Networks{{netip.MustParsePrefix("127.0.0.0/8")}, {netip.MustParsePrefix("::1/128")}}
	if addr, err := netip.ParseAddr(HostOf(string(a))); err == nil && !addr.IsUnspecified() {
		own = append(own, Network{netip.PrefixFrom(addr.Unmap(), addr.Unmap().BitLen())})
	}
	return own
}

// Variables returns the environment variables of all settings.
func Variables() []string {
	fields := reflect.VisibleFields(reflect.TypeFor[Config]())
	names := make([]string, len(fields))
	for i, field := range fields {
		names[i] = field.Tag.Get("env")
	}
	return names
}

// SitePlan returns the plan of new sites.
func (c *Config) SitePlan() model.Plan {
	return defaultPlan(c.DefaultSitePlan, model.PlanFree, model.PlanEnterprise, c.Signups)
}

// CaptchaPlan returns the captcha plan of new accounts.
func (c *Config) CaptchaPlan() model.CaptchaPlan {
	return defaultPlan(c.DefaultCaptchaPlan, model.CaptchaPlanFree, model.CaptchaPlanEnterprise, c.Signups)
}

// defaultPlan returns the plan of a setting, or without one the plan that the policy of sign-ups
// implies: limits protect an operator who does not know the owners, and hinder on one's own server.
func defaultPlan[P ~string](setting, free, unlimited P, signups model.SignupPolicy) P {
	switch {
	case setting != "":
		return setting
	case signups == model.SignupsOpen:
		return free
	default:
		return unlimited
	}
}

// Validate checks limits and combinations of settings.
func (c *Config) Validate() error {
	if len(c.Roles) == 0 {
		return errors.New("--roles: name at least one of control, data, worker")
	}
	if c.SecretPrevious != "" && c.SecretPrevious == c.Secret {
		return errors.New("--secret-previous: this is the same key as --secret")
	}
	if _, ok := c.SitePlan().MonthlyPageviews(); !ok {
		return fmt.Errorf("--default-site-plan: %q is not a plan", c.DefaultSitePlan)
	}
	if _, ok := c.CaptchaPlan().Quota(); !ok {
		return fmt.Errorf("--default-captcha-plan: %q is not a captcha plan", c.DefaultCaptchaPlan)
	}

	if err := c.checkProvider(); err != nil {
		return err
	}

	for _, network := range c.TrustedProxies {
		if network.Bits() == 0 {
			return fmt.Errorf("--trusted-proxies: %s trusts every address, so that any client could claim any other: "+
				"name the addresses of your proxies", network)
		}
	}

	if err := c.checkTLS(); err != nil {
		return err
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

// checkProvider checks the settings of the installation's OpenID Connect provider. Its errors do
// not contain the client secret.
func (c *Config) checkProvider() error {
	if c.OIDCIssuer == "" {
		if c.OIDCClientID != "" || c.OIDCClientSecret != "" {
			return errors.New("--oidc-client-id, --oidc-client-secret: require --oidc-issuer")
		}
		return nil
	}

	if model.CheckIssuer("issuer", c.OIDCIssuer) != nil {
		return fmt.Errorf("--oidc-issuer: %q is not an https address without a query, such as https://login.example.com",
			c.OIDCIssuer)
	}
	switch {
	case c.OIDCClientID == "" && c.OIDCClientSecret == "":
		return errors.New("--oidc-issuer: requires --oidc-client-id and --oidc-client-secret")
	case c.OIDCClientID == "":
		return errors.New("--oidc-issuer: requires --oidc-client-id")
	case c.OIDCClientSecret == "":
		return errors.New("--oidc-issuer: requires --oidc-client-secret")
	}
	if _, err := model.ParseName("name", c.OIDCName); err != nil {
		return errors.New("--oidc-name: use 1 to 100 visible characters")
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

// The sizes of a pool. One connection alone could wait for itself: some calls read while they
// write.
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
var _ = []flags.Unmarshaler{new(Roles), new(Address), new(Origin), new(DatabaseURL), new(CellAddresses), new(RedisURL),
	new(SMTPURL), new(Secret), new(ClientSecret), new(Networks), new(LogLevel), new(model.SignupPolicy)}

// Roles are the roles of a process.
type Roles []Role

// UnmarshalFlag adds roles, separated by commas.
func (r *Roles) UnmarshalFlag(text string) error {
	for name := range strings.SplitSeq(text, ",") {
		role := Role(strings.TrimSpace(name))
		if role != RoleControl && role != RoleData && role != RoleWorker {
			return fmt.Errorf("%q is not one of control, data, worker", name)
		}
		*r = append(*r, role)
	}
	return nil
}

// Address is a host and port to listen on.
type Address string

// UnmarshalFlag parses an address.
func (a *Address) UnmarshalFlag(text string) error {
	if _, err := net.ResolveTCPAddr("tcp", text); err != nil || !strings.Contains(text, ":") {
		return fmt.Errorf("%q is not host:port", text)
	}
	*a = Address(text)
	return nil
}

// DatabaseURL is the address of a PostgreSQL server.
type DatabaseURL string

// UnmarshalFlag parses a database address, as the driver does: also one without a host, for the
// socket of this machine. Its errors do not contain the address, because it may hold a password.
func (d *DatabaseURL) UnmarshalFlag(text string) error {
	if !strings.HasPrefix(text, "postgres://") && !strings.HasPrefix(text, "postgresql://") {
		return errors.New("must start with postgres://")
	}
	if _, err := pgpool.Parse(text); err != nil {
		return errors.New("cannot be used as postgres://user:password@host/database: check its signs, which a password has " +
			"escaped (% as %25), its options, and the files that these name, such as sslrootcert")
	}
	*d = DatabaseURL(text)
	return nil
}

// RedisURL is the address of a Redis server, or of several.
type RedisURL string

// UnmarshalFlag parses a Redis address. Its errors do not contain it, because it may hold a
// password.
func (r *RedisURL) UnmarshalFlag(text string) error {
	if err := queue.CheckURL(text); err != nil {
		return err
	}
	*r = RedisURL(text)
	return nil
}

// SMTPURL is the address of a mail server.
type SMTPURL string

// UnmarshalFlag parses a mail server's address. Its errors do not contain it, because it may hold a
// password.
func (s *SMTPURL) UnmarshalFlag(text string) error {
	if _, err := mail.NewServer(text, "noreply@localhost", nil); err != nil {
		return err
	}
	*s = SMTPURL(text)
	return nil
}

// ClientSecret is the secret of this installation at its OpenID Connect provider.
type ClientSecret string

// UnmarshalFlag parses a client secret. Its errors do not contain it.
func (s *ClientSecret) UnmarshalFlag(text string) error {
	if model.CheckClientSecret("", text) != nil {
		return errors.New("must have 1 to 500 characters without line breaks")
	}
	*s = ClientSecret(text)
	return nil
}

// Secret is the application key.
type Secret string

// KeyFile is the file of the application key in the data folder, unless the key is a setting.
const KeyFile = "secret"

// UnmarshalFlag parses an application key. Its errors do not contain it.
func (s *Secret) UnmarshalFlag(text string) error {
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

// The prefixes of networks that hold more than the proxies of one installation, in bits. An IPv4 /8
// is a whole private range, or the largest network that one organisation has. IPv6 has no such
// network of /8: its providers have /19 at most, and lists of proxies of large content networks
// name up to /29. So a /16 or larger is a whole class of addresses, such as the private fd00::/8.
const (
	wideBits4 = 8
	wideBits6 = 16
)

// IsWide reports whether a network of trusted proxies is so large that it probably contains
// clients. They could claim any address, and would have no limits by network.
func (n Network) IsWide() bool {
	if n.Addr().Is4() {
		return n.Bits() <= wideBits4 && !n.isLoopback()
	}
	return n.Bits() <= wideBits6
}

// isLoopback reports whether all addresses of an IPv4 network are of this machine.
func (n Network) isLoopback() bool { return n.Addr().IsLoopback() && n.Bits() >= wideBits4 }

// Networks are several networks.
type Networks []Network

// UnmarshalFlag adds networks and addresses, separated by commas.
func (n *Networks) UnmarshalFlag(text string) error {
	for one := range strings.SplitSeq(text, ",") {
		var network Network
		if err := network.UnmarshalFlag(one); err != nil {
			return err
		}
		*n = append(*n, network)
	}
	return nil
}

// UnmarshalFlag parses a network or an address.
func (n *Network) UnmarshalFlag(text string) error {
	s := strings.TrimSpace(text)
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
