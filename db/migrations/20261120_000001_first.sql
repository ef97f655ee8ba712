-- Moments are microseconds since 1970 UTC (bigint), days are days since 1970, months are year*100+month.

-- What holds for the whole installation, such as the fingerprint of its application key.
CREATE TABLE settings (
  name  text PRIMARY KEY,
  value text NOT NULL
);

CREATE TABLE accounts (
  id         {{.Identity}},
  name       text   NOT NULL,
  created_at bigint NOT NULL
);

CREATE TABLE users (
  id            {{.Identity}},
  account_id    bigint  NOT NULL REFERENCES accounts (id) ON DELETE CASCADE,
  email         text    NOT NULL,
  password_hash text    NOT NULL,
  operator      boolean NOT NULL DEFAULT false,
  created_at    bigint  NOT NULL
);
CREATE UNIQUE INDEX users_email ON users (email);
CREATE INDEX users_account ON users (account_id, id); -- members of an account

CREATE TABLE sessions (
  id_hash      {{.Bytes}}  PRIMARY KEY,
  user_id      bigint NOT NULL REFERENCES users (id) ON DELETE CASCADE,
  created_at   bigint NOT NULL,
  last_seen_at bigint NOT NULL,
  expires_at   bigint NOT NULL
);
CREATE INDEX sessions_user ON sessions (user_id);      -- sessions of a user
CREATE INDEX sessions_expiry ON sessions (expires_at); -- housekeeping

-- Failed sign-ins by keyed hash of what was tried (an e-mail address, a network), so that nothing personal is kept.
CREATE TABLE signin_failures (
  key           {{.Bytes}}   PRIMARY KEY,
  failures      integer NOT NULL,
  last_at       bigint  NOT NULL
);
CREATE INDEX signin_failures_age ON signin_failures (last_at); -- housekeeping

CREATE TABLE sites (
  id                         {{.Identity}},
  account_id                 bigint  NOT NULL REFERENCES accounts (id) ON DELETE CASCADE,
  site_key                   text    NOT NULL,
  domain                     text    NOT NULL,
  name                       text    NOT NULL,
  plan                       text    NOT NULL,
  monthly_pageviews          bigint  NOT NULL CHECK (monthly_pageviews >= 0),
  measure_site_search        boolean NOT NULL DEFAULT false,
  measure_ecommerce          boolean NOT NULL DEFAULT false,
  allow_pseudonymous_user_id boolean NOT NULL DEFAULT false,
  automatic_events           boolean NOT NULL DEFAULT true,
  server_secret_hash         {{.Bytes}},          -- SHA-256
  server_secret_hint         text,           -- the last characters, for the owner to recognise it by
  conversion_webhook_url     text,
  created_at                 bigint  NOT NULL
);
CREATE UNIQUE INDEX sites_site_key ON sites (site_key);                   -- every hit of a browser
CREATE UNIQUE INDEX sites_server_secret_hash ON sites (server_secret_hash); -- every call of a server
CREATE UNIQUE INDEX sites_account_domain ON sites (account_id, domain);
CREATE INDEX sites_account ON sites (account_id, id);                     -- pages of an account's sites

-- Extra domains of a site, beside its own.
CREATE TABLE site_domains (
  site_id bigint NOT NULL REFERENCES sites (id) ON DELETE CASCADE,
  domain  text   NOT NULL,
  PRIMARY KEY (site_id, domain)
){{.WithoutRowID}};

-- The site's own event names.
CREATE TABLE registered_events (
  site_id bigint NOT NULL REFERENCES sites (id) ON DELETE CASCADE,
  name    text   NOT NULL,
  PRIMARY KEY (site_id, name)
){{.WithoutRowID}};

-- Events that call the conversion webhook. A purchase always does and needs no row.
CREATE TABLE key_events (
  site_id bigint NOT NULL REFERENCES sites (id) ON DELETE CASCADE,
  name    text   NOT NULL,
  PRIMARY KEY (site_id, name)
){{.WithoutRowID}};

-- Addresses whose hits are not stored, as networks in CIDR form.
CREATE TABLE excluded_addresses (
  site_id bigint NOT NULL REFERENCES sites (id) ON DELETE CASCADE,
  network text   NOT NULL,
  PRIMARY KEY (site_id, network)
){{.WithoutRowID}};

-- The random part of a day's visitor key. Destroyed after the day, so that ids cannot be computed again.
CREATE TABLE day_salts (
  day  integer PRIMARY KEY,
  salt {{.Bytes}}   NOT NULL
);

-- Page views and events per site and UTC month. Its row is also the lock that writers of one site take turns on.
CREATE TABLE site_usage (
  site_id bigint  NOT NULL,
  month   integer NOT NULL,
  used    bigint  NOT NULL,
  PRIMARY KEY (site_id, month)
{{if .Postgres -}}
) WITH (fillfactor = 20);
{{- else -}}
) WITHOUT ROWID;
{{- end}}

-- Calls that were refused or ignored, by day, endpoint and code. Added up in memory and flushed.
CREATE TABLE rejections (
  site_id  bigint  NOT NULL,
  day      integer NOT NULL,
  endpoint text    NOT NULL,
  code     text    NOT NULL,
  count    bigint  NOT NULL,
  PRIMARY KEY (site_id, day, endpoint, code)
{{if .Postgres -}}
) WITH (fillfactor = 50);
{{- else -}}
) WITHOUT ROWID;
{{- end}}

{{if .Postgres -}}
-- Visits, page views and events are cut by month: old months are dropped as a whole, and an index never holds more than a
-- month. Months are made ahead; the default parts are the guard and stay empty.{{end}}
CREATE TABLE visits (
  site_id          bigint  NOT NULL,
  id               bigint  NOT NULL, -- grows with time: microseconds since 2020 * 4096 + random
  visitor          {{.Bytes}}   NOT NULL,
  started_at       bigint  NOT NULL,
  last_pageview_at bigint  NOT NULL, -- 0: only events so far
  pageviews        integer NOT NULL,
  channel          text    NOT NULL,
  user_id          {{.Bytes}},            -- keyed hash of the owner's pseudonymous id
  referrer         text,
  utm_source       text,
  utm_medium       text,
  utm_campaign     text,
  utm_content      text,
  utm_term         text,
  gclid            text,
  gbraid           text,
  wbraid           text,
  fbclid           text,
  msclkid          text,
  PRIMARY KEY (site_id, id)
{{if .Postgres -}}
) PARTITION BY RANGE (id);
CREATE INDEX visits_visitor ON visits (visitor, id); -- the visitor's current visit, on every page view
{{- else -}}
) WITHOUT ROWID;
CREATE INDEX visits_visitor ON visits (site_id, visitor); -- the visitor's current visit, on every page view
{{- end}}

CREATE TABLE pageviews (
  site_id     bigint   NOT NULL,
  at          bigint   NOT NULL,
  id          bigint   NOT NULL,
  visit_id    bigint   NOT NULL,
  engaged_ms  integer  NOT NULL,
  scroll      smallint NOT NULL,
  width_range smallint NOT NULL,
  manual      boolean  NOT NULL, -- sent by the page's own call, not by the script itself
  path        text     NOT NULL,
  language    text,
  PRIMARY KEY (site_id, at, id) -- the order of the export
{{if .Postgres -}}
) PARTITION BY RANGE (at);
CREATE INDEX pageviews_id ON pageviews (id, at); -- engagement finds its page view, the newest with that id
{{- else -}}
) WITHOUT ROWID;
CREATE INDEX pageviews_id ON pageviews (site_id, id, at); -- engagement finds its page view, the newest with that id
{{- end}}

CREATE TABLE events (
  site_id        bigint NOT NULL,
  at             bigint NOT NULL,
  id             bigint NOT NULL,
  visit_id       bigint NOT NULL,
  name           text   NOT NULL,
  path           text   NOT NULL,
  value          bigint,           -- millionths of the currency's unit; negative for a refund
  currency       text,
  transaction_id text,
  properties     text,             -- JSON as sent, without what has a column
  PRIMARY KEY (site_id, at, id)    -- the order of the export
{{if .Postgres -}}
) PARTITION BY RANGE (at);
{{- else -}}
) WITHOUT ROWID;
{{- end}}

-- Purchases and refunds that are recorded. Not cut by month, so that an id is unique for good.
CREATE TABLE transactions (
  site_id        bigint NOT NULL,
  transaction_id text   NOT NULL,
  event          text   NOT NULL, -- purchase or refund
  at             bigint NOT NULL,
  PRIMARY KEY (site_id, transaction_id)
){{.WithoutRowID}};

-- What has to be sent to owners: written with the fact itself, sent by the worker.
CREATE TABLE deliveries (
  site_id         bigint  NOT NULL,
  id              bigint  NOT NULL,
  kind            text    NOT NULL, -- conversion
  event           text    NOT NULL,
  state           text    NOT NULL, -- pending, delivered or failed
  attempts        integer NOT NULL,
  created_at      bigint  NOT NULL,
  next_attempt_at bigint  NOT NULL,
  body            text    NOT NULL, -- sent byte by byte as it is, at each attempt
  PRIMARY KEY (site_id, id)
);
CREATE INDEX deliveries_due ON deliveries (next_attempt_at) WHERE state = 'pending'; -- the sweeper

{{if .Postgres}}CREATE TABLE visits_default    PARTITION OF visits    DEFAULT;
CREATE TABLE pageviews_default PARTITION OF pageviews DEFAULT;
CREATE TABLE events_default    PARTITION OF events    DEFAULT;
{{- end}}