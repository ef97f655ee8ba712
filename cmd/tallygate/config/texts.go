package config

// Text describes a setting.
type Text struct {
	Help string // for --help and docs/operator/configuration.md
	More string // for docs/operator/configuration.md only
}

// Texts describe the settings by the names of their flags.
var Texts = map[string]Text{
	"data-dir": {
		Help: "Folder of the embedded database and the application key.",
	},
	"database-url": {
		Help: "PostgreSQL 15 or newer, as postgres://user:password@host:port/name. Empty: a SQLite file in the data " +
			"folder.",
		More: "Several processes may share either database, SQLite on one machine only. Each process follows changes " +
			"made by another one within a second.",
	},
	"database-direct-url": {
		Help: "Address of the same PostgreSQL database without a connection pooler in between, if database-url leads " +
			"to one. Empty: as database-url.",
		More: "See [Connection poolers](operations.md#connection-poolers).",
	},
	"database-pool": {
		Help: "Most connections of one process to PostgreSQL for the control plane and the worker: 2 to 1000.",
	},
	"data-pool": {
		Help: "Most connections of one process to PostgreSQL for what the data plane looks up: 2 to 1000. The writer " +
			"of hits, the captcha and the watch of changes have one more each.",
	},
	"cell-addresses": {
		Help: "Addresses that store the hits and captcha claims of a cell instead of database-url, as " +
			"2=postgres://user:password@host:port/name,3=postgres://… On Citus: a worker's.",
		More: "See [Addresses of cells](scale.md#addresses-of-cells).",
	},
	"redis-url": {
		Help: "Redis for the job queue: redis://host:port/0, redis-sentinel://host,host/0?master=name or " +
			"redis-cluster://host,host, or with rediss for TLS. Empty: a queue in the memory of this process.",
		More: "Version 6.2 or newer, with the setting maxmemory-policy noeviction. The Sentinels' own credentials " +
			"are sentinel_user and sentinel_password in the query.",
	},
	"no-migrate": {
		Help: "Do not change the database's schema at the start, and refuse to start if a migration is pending. For " +
			"a role of PostgreSQL without the right to create tables.",
		More: "See [Migrations](operations.md#migrations).",
	},
	"roles": {
		Help: "Roles of this process: any of control, data, worker.",
	},
	"processes": {
		Help: "two: the role data runs in the process that was started, and the other roles in a child process of low priority, so " +
			"that no report or import can slow or stop the hits. one: all roles run in one process.",
		More: "See [Roles](operations.md#roles).",
	},
	"control-addr": {
		Help: "Address of the control plane: accounts, GraphQL, downloads. Port 0 picks a free one.",
	},
	"data-addr": {
		Help: "Address of the data plane: scripts, hits, captcha. Port 0 picks a free one.",
	},
	"base-url": {
		Help: "Public origin of the control plane, for instance https://app.example.com. Empty: http and the control " +
			"address.",
	},
	"analytics-url": {
		Help: "Public origin of the script and the analytics endpoints. Empty: http and the data address.",
	},
	"captcha-url": {
		Help: "Public origin of the captcha endpoints. Empty: as analytics-url.",
	},
	"tls": {
		Help: "off: a reverse proxy terminates TLS. auto: this process serves the public origins on tls-addr, and obtains " +
			"and renews their certificates by ACME. With auto you accept the terms of service of the authority.",
		More: "See [TLS without a proxy](tls.md).",
	},
	"tls-addr": {
		Help: "Address for https with TALLYGATE_TLS=auto. The authority connects to port 443 of each host.",
	},
	"tls-http-addr": {
		Help: "Address for http with TALLYGATE_TLS=auto: it answers the authority's challenges and redirects the known " +
			"hosts to https. The authority connects to port 80 of each host.",
	},
	"tls-email": {
		Help: "E-mail address of the account at the authority, which some authorities write to. Empty: none.",
	},
	"tls-acme-directory": {
		Help: "Directory of the ACME authority.",
	},
	"tls-acme-ca-file": {
		Help: "Further certificates, in PEM form, that are trusted for the connection to the ACME directory, for instance of a " +
			"private authority.",
	},
	"secret": {
		Help: "Application key, 32 to 1024 characters, the same in every process on one database. Empty: a key that " +
			"is created in the data folder.",
	},
	"secret-previous": {
		Help: "Previous application key while it is being replaced, 32 to 1024 characters: still accepted, and used " +
			"until tallygate admin rotate-secret has run. Empty: the file secret.previous in the data folder, if " +
			"the key is a file there.",
		More: "See [Change the application key](incidents.md#change-the-application-key).",
	},
	"accept-lost-log": {
		Help: "Start although the log of the embedded database was removed or replaced after a kill, without the " +
			"commits in it.",
		More: "See [After a kill](operations.md#after-a-kill).",
	},
	"trusted-proxies": {
		Help: "Proxies whose X-Forwarded-For is trusted, as addresses or networks. A network of all addresses (/0) " +
			"is refused. Empty: none.",
		More: "IPv4-mapped networks count as IPv4. See [Proxies](operations.md#proxies).",
	},
	"signups": {
		Help: "Permitted sign-ups: first-only (only the first account, the operator's), open (any visitor; the " +
			"e-mail address is verified if there is a mail server) or closed.",
	},
	"default-site-plan": {
		Help: "Plan of new sites: FREE (10,000 page views a month), PRO_100K, PRO_500K, PRO_1M, PRO_2M, PRO_5M, or " +
			"unlimited, which is ENTERPRISE. Empty: unlimited, but FREE if sign-ups are open.",
		More: "See [Plans](operations.md#plans).",
	},
	"default-captcha-plan": {
		Help: "Captcha plan of new accounts: FREE (10,000 verifications a month), PRO_100K, PRO_250K, PRO_500K, " +
			"PRO_1M, or unlimited, which is ENTERPRISE. Empty: unlimited, but FREE if sign-ups are open.",
	},
	"oidc-issuer": {
		Help: "Issuer of an OpenID Connect provider that signs people of the whole installation in, as " +
			"https://login.example.com. Empty: none.",
		More: "See [Sign-in through a provider](../owner/sign-in.md). Accounts can have providers of their own.",
	},
	"oidc-client-id": {
		Help: "This installation's client id at the provider.",
	},
	"oidc-client-secret": {
		Help: "This installation's client secret at the provider.",
	},
	"oidc-name": {
		Help: "Name of the provider on the sign-in page: 1 to 100 characters.",
	},
	"oidc-trust-emails": {
		Help: "Take an address of the provider as verified where the provider does not send email_verified. Only " +
			"for a provider at which no one can enter the address of someone else.",
	},
	"oidc-ca-file": {
		Help: "PEM file of authorities that are trusted for providers in addition to the system's.",
	},
	"oidc-allow-nets": {
		Help: "Networks in which accounts may have their providers in addition to the internet, on any port. Empty: none.",
	},
	"captcha-difficulty": {
		Help: "Base difficulty of a captcha challenge, in expected hashes: 1024 to 16777216.",
	},
	"captcha-test-sitekey": {
		Help: "Accept the captcha's public test sitekey and its secret. Turn it off where no form is tested.",
	},
	"flood-burst": {
		Help: "Hits of one network (IPv4 /24, IPv6 /64) for one site that are stored in a burst: 1 to 1000000000. " +
			"Further ones are answered but not stored or counted. 0 turns the limit off.",
		More: "See [the flood limit](../contributor/adr/014-flood-limit.md).",
	},
	"flood-rate": {
		Help: "Hits a second by which a network's burst refills: 1 to 1000000.",
	},
	"server-flood-burst": {
		Help: "Server-side events of one site that are stored in a burst: 1 to 1000000000. Further ones are answered " +
			"but not stored or counted. 0 turns the limit off.",
		More: "See [the flood limit](../contributor/adr/014-flood-limit.md).",
	},
	"server-flood-rate": {
		Help: "Server-side events a second by which a site's burst refills: 1 to 1000000.",
	},
	"geo-file": {
		Help: "Database of countries by address, as .mmdb in MaxMind's format, for sites that keep the country of a visit. " +
			"A changed file is read within seconds. Empty: no country is known.",
		More: "Give it to processes of the control plane, too. See [Countries and lists](operations.md#countries-and-lists).",
	},
	"referrer-spam-file": {
		Help: "List of domains, one a line, that send referrer spam, with their subdomains. A changed file is read within " +
			"seconds. Empty: none.",
		More: "Give it to processes of the control plane, too. See [Countries and lists](operations.md#countries-and-lists).",
	},
	"data-centre-file": {
		Help: "List of networks (CIDR) and addresses of data centres, one a line. A changed file is read within seconds. " +
			"Empty: none.",
		More: "Give it to processes of the control plane, too. See [Countries and lists](operations.md#countries-and-lists).",
	},
	"retention-months": {
		Help: "Whole months before the current one for which visits, page views and events are kept: 1 to 120. 0 " +
			"keeps everything. Months are counted from the newest stored row.",
	},
	"report-retention-months": {
		Help: "Whole months before the current one for which reports are kept: 1 to 120. 0 keeps everything. Reports " +
			"do not need the visits, page views and events that they were counted from.",
	},
	"allow-local-domains": {
		Help: "Accept names under .localhost as a site's domain. For demos and tests.",
	},
	"webhook-allow-nets": {
		Help: "Networks that webhooks may call in addition to the internet, on any port. Empty: none.",
	},
	"webhook-ca-file": {
		Help: "PEM file of authorities that webhooks trust in addition to the system's.",
	},
	"smtp-url": {
		Help: "Mail server, as smtp://user:password@host:587 (STARTTLS) or smtps://user:password@host:465. Empty: no " +
			"mail is sent; the log names each mail without its link.",
		More: "The query tls=none turns TLS off, for a server on the same machine.",
	},
	"mail-from": {
		Help: "Sender of mails.",
	},
	"drain-delay": {
		Help: "Time to continue serving after the signal to stop, while /readyz responds with 503, so that load " +
			"balancers stop sending before the listeners close: 0s to 60s. Choose slightly more than their check " +
			"interval.",
	},
	"metrics-addr": {
		Help: "Address of /metrics for Prometheus, in processes of any role. It must not be public. Empty: none.",
		More: "See [Metrics](operations.md#metrics).",
	},
	"health-addr": {
		Help: "Further address of /healthz and /readyz, which the listeners of the control plane, the data plane and " +
			"the metrics have as well. For processes with the worker role alone. Empty: none.",
	},
	"access-log": {
		Help: "Write a line of JSON to the standard output for each request to the control and the data plane.",
		More: "See [Access log](operations.md#access-log).",
	},
	"graphiql": {
		Help: "Serve GraphiQL, a page to try the schema with, at /graphql.",
	},
	"introspection": {
		Help: "Permit callers to read the GraphQL schema. GraphiQL needs it for its help.",
	},
	"log-level": {
		Help: "Lowest level of log lines: debug, info, warn or error.",
	},
	"log-format": {
		Help: "Format of log lines: text or json.",
	},
}
