-- oldest program: unchanged
-- Times are microseconds since 1970 UTC (bigint), days are days since 1970, months are year*100+month.

-- What holds for the whole installation, such as the fingerprint of its application key.
CREATE TABLE settings (
  name  text PRIMARY KEY,
  value text NOT NULL
);

-- Accounts, their users, and how these sign in.

CREATE TABLE accounts (
  id                 @identity,
  name               text    NOT NULL,
  created_at         bigint  NOT NULL,
  captcha_plan       text    NOT NULL DEFAULT 'FREE',
  site_limit         integer,                    -- sites on the plan of new sites; NULL: the default
  mail_day           integer NOT NULL DEFAULT 0, -- the UTC day of the two counters
  invitations_mailed integer NOT NULL DEFAULT 0,
  notices_mailed     integer NOT NULL DEFAULT 0
);

CREATE TABLE users (
  id            @identity,
  account_id    bigint  NOT NULL REFERENCES accounts (id) ON DELETE CASCADE,
  email         text    NOT NULL,
  password_hash text    NOT NULL,
  operator      boolean NOT NULL DEFAULT false,
  created_at    bigint  NOT NULL,
  role          text    NOT NULL DEFAULT 'OWNER',

  -- How often the password was changed. What a browser remembers of a sign-in counts for one generation.
  password_generation integer NOT NULL DEFAULT 0
);
CREATE UNIQUE INDEX users_email ON users (email);
CREATE INDEX users_account ON users (account_id, id); -- members of an account

CREATE TABLE sessions (
  id_hash      @bytes  PRIMARY KEY,
  user_id      bigint NOT NULL REFERENCES users (id) ON DELETE CASCADE,
  created_at   bigint NOT NULL,
  last_seen_at bigint NOT NULL,
  expires_at   bigint NOT NULL
);
CREATE INDEX sessions_user ON sessions (user_id);      -- sessions of a user
CREATE INDEX sessions_expiry ON sessions (expires_at); -- housekeeping

-- Failed sign-ins by keyed hash of what was tried (an e-mail address, a network), so that nothing personal is kept.
CREATE TABLE signin_failures (
  key           @bytes   PRIMARY KEY,
  failures      integer NOT NULL,
  last_at       bigint  NOT NULL
);
CREATE INDEX signin_failures_age ON signin_failures (last_at); -- housekeeping
CREATE INDEX signin_failures_weight ON signin_failures (failures, last_at); -- those that a full table drops first

-- A sign-up is a row for 24 hours, until its address is verified, before it is an account. It reserves nothing: the address
-- may have several, and may get an account in another way.
CREATE TABLE pending_sign_ups (
  id            @identity,
  email         text   NOT NULL,
  account_name  text   NOT NULL,
  password_hash text   NOT NULL,
  token_hash    @bytes  NOT NULL, -- SHA-256 of the mailed secret
  created_at    bigint NOT NULL,
  expires_at    bigint NOT NULL
);
CREATE UNIQUE INDEX pending_sign_ups_token ON pending_sign_ups (token_hash);
CREATE INDEX pending_sign_ups_email ON pending_sign_ups (email, id);    -- the oldest of an address
CREATE INDEX pending_sign_ups_expiry ON pending_sign_ups (expires_at);  -- housekeeping

CREATE TABLE invitations (
  id         @identity,
  account_id bigint NOT NULL REFERENCES accounts (id) ON DELETE CASCADE,
  email      text   NOT NULL,
  role       text   NOT NULL,
  token_hash @bytes   NOT NULL, -- SHA-256
  created_at bigint NOT NULL,
  expires_at bigint NOT NULL
);
CREATE UNIQUE INDEX invitations_token ON invitations (token_hash);
CREATE UNIQUE INDEX invitations_account ON invitations (account_id, email); -- one at a time
CREATE INDEX invitations_expiry ON invitations (expires_at);                -- housekeeping

CREATE TABLE password_resets (
  token_hash @bytes   PRIMARY KEY, -- SHA-256
  user_id    bigint NOT NULL REFERENCES users (id) ON DELETE CASCADE,
  expires_at bigint NOT NULL
);
CREATE INDEX password_resets_user ON password_resets (user_id);      -- a new one replaces the old
CREATE INDEX password_resets_expiry ON password_resets (expires_at); -- housekeeping

CREATE TABLE api_tokens (
  id           @identity,
  account_id   bigint NOT NULL REFERENCES accounts (id) ON DELETE CASCADE,
  user_id      bigint NOT NULL REFERENCES users (id) ON DELETE CASCADE,
  name         text   NOT NULL,
  scopes       text   NOT NULL, -- JSON array
  token_hash   @bytes   NOT NULL, -- SHA-256
  token_hint   text   NOT NULL, -- the last characters, for the owner to recognise it by
  created_at   bigint NOT NULL,
  last_used_at bigint           -- to the minute
);
CREATE UNIQUE INDEX api_tokens_hash ON api_tokens (token_hash); -- every request with a token
CREATE INDEX api_tokens_user ON api_tokens (user_id, id);       -- tokens of a user
CREATE INDEX api_tokens_account ON api_tokens (account_id);     -- deletion of an account

-- Sites and their settings.

CREATE TABLE sites (
  id                         @identity CHECK (id < 2147483648), -- the tables of hits hold it in 4 bytes
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
  server_secret_hash         @bytes,          -- SHA-256
  server_secret_hint         text,           -- the last characters, for the owner to recognise it by
  conversion_webhook_url     text,
  created_at                 bigint  NOT NULL,
  conversion_webhook_secret  @bytes, -- encrypted with the application key; NULL: nothing is signed
  daily_export_url           text,
  daily_export_day           integer NOT NULL DEFAULT 0 -- the next day to export; 0 without an address
);
CREATE UNIQUE INDEX sites_site_key ON sites (site_key);                   -- every hit of a browser
CREATE UNIQUE INDEX sites_server_secret_hash ON sites (server_secret_hash); -- every call of a server
CREATE UNIQUE INDEX sites_account_domain ON sites (account_id, domain);
CREATE INDEX sites_account ON sites (account_id, id);                     -- pages of an account's sites
CREATE INDEX sites_daily_export ON sites (daily_export_day) WHERE daily_export_url IS NOT NULL; -- the nightly plan

-- Extra domains of a site, in addition to its own.
CREATE TABLE site_domains (
  site_id bigint NOT NULL REFERENCES sites (id) ON DELETE CASCADE,
  domain  text   NOT NULL,
  PRIMARY KEY (site_id, domain)
) @without_rowid;

-- The site's own event names.
CREATE TABLE registered_events (
  site_id bigint NOT NULL REFERENCES sites (id) ON DELETE CASCADE,
  name    text   NOT NULL,
  PRIMARY KEY (site_id, name)
) @without_rowid;

-- Events that call the conversion webhook. A purchase always does and needs no row.
CREATE TABLE key_events (
  site_id bigint NOT NULL REFERENCES sites (id) ON DELETE CASCADE,
  name    text   NOT NULL,
  PRIMARY KEY (site_id, name)
) @without_rowid;

-- Addresses whose hits are not stored, as networks in CIDR form.
CREATE TABLE excluded_addresses (
  site_id bigint NOT NULL REFERENCES sites (id) ON DELETE CASCADE,
  network text   NOT NULL,
  PRIMARY KEY (site_id, network)
) @without_rowid;

-- Sites that were deleted and may have rows left: those of a large one, or of hits in flight.
CREATE TABLE deleted_sites (
  site_id    bigint PRIMARY KEY,
  deleted_at bigint NOT NULL
);

-- Page views and events per site and UTC month. Its row is also the lock that writers of one site take turns on.
CREATE TABLE site_usage (
  site_id bigint  NOT NULL,
  month   integer NOT NULL,
  used    bigint  NOT NULL,
  reports bigint  NOT NULL DEFAULT 0, -- rows of engagement that the month added; used bounds them
  PRIMARY KEY (site_id, month)
-- @if postgres
) WITH (fillfactor = 20);
-- @else
) WITHOUT ROWID;
-- @end

-- Calls that were refused or ignored, by day, endpoint and code. Added up in memory and flushed.
CREATE TABLE rejections (
  site_id  bigint  NOT NULL,
  day      integer NOT NULL,
  endpoint text    NOT NULL,
  code     text    NOT NULL,
  count    bigint  NOT NULL,
  PRIMARY KEY (site_id, day, endpoint, code)
-- @if postgres
) WITH (fillfactor = 50);
-- @else
) WITHOUT ROWID;
-- @end

-- Hits. What costs most is the number of pages that a hit changes. So a visit's key is what a hit finds it by, a page view
-- names its visit by that key, and what is reported on a page view goes into a table of its own without a lookup. In each
-- key the day stands before what is random: a hit then changes some of today's pages, which are in memory.
--
-- PostgreSQL aligns columns, so their order leaves no gaps. It logs an update from the first byte that differs to the last: in
-- visits the columns that later hits change stand together. A column is nullable only if it mostly is NULL, see db/tables.Bytes.
-- @if postgres
--
-- The tables are cut by month: old months are detached as a whole, and an index never holds more than a month. Months are
-- created ahead; the default partitions catch other rows and stay empty.
-- @end
CREATE TABLE visits (
  visitor          bigint   NOT NULL, -- pseudonym of the day
  started_at       bigint   NOT NULL,
  site_id          integer  NOT NULL,
  day              integer  NOT NULL, -- of started_at
  n                smallint NOT NULL, -- the visitor's n-th visit of the day, from 1
  channel          smallint NOT NULL, -- see db/model.Channel
  pageviews        integer  NOT NULL,
  last_pageview_at bigint   NOT NULL, -- 0: only events so far
  recent           @bytes    NOT NULL DEFAULT '', -- latest automatic page views, see db/model.PackRecent
  awaited          @bytes    NOT NULL DEFAULT '', -- page views that events have named and that have not arrived
  viewed           @bytes    NOT NULL DEFAULT '', -- latest page view ids, which events may name
  user_id          @bytes    NOT NULL DEFAULT '', -- keyed hash of the owner's pseudonymous id
  attribution      text     NOT NULL DEFAULT '', -- referrer and campaign, see db/model.PackAttribution
  PRIMARY KEY (site_id, day, visitor, n)
-- @if postgres
) PARTITION BY RANGE (day);
-- @else
) WITHOUT ROWID;
-- @end

CREATE TABLE pageviews (
  at          bigint   NOT NULL,
  id          bigint   NOT NULL,
  visitor     bigint   NOT NULL, -- with n and the day of at: the key of the visit
  site_id     integer  NOT NULL,
  n           smallint NOT NULL,
  width_range smallint NOT NULL,
  manual      boolean  NOT NULL, -- sent by the page's own call, not by the script itself
  path        text     NOT NULL,
  language    text     NOT NULL DEFAULT ''
-- @if postgres
) PARTITION BY RANGE (at);
CREATE INDEX pageviews_at ON pageviews (site_id, at); -- the order of the export, which ends with the id
-- @else
  , PRIMARY KEY (site_id, at, id) -- the order of the export
) WITHOUT ROWID;
-- @end

-- Time in view and scroll depth that were reported on a page view id on one day. The newest page view with the id has them,
-- if there is one on this day or one of the two before it.
CREATE TABLE engagement (
  id          bigint   NOT NULL,
  site_id     integer  NOT NULL,
  day         integer  NOT NULL,
  ms          integer  NOT NULL,
  scroll      smallint NOT NULL,
  repeated_at bigint, -- time of the newest page view that repeats the id; NULL: none does
  PRIMARY KEY (site_id, day, id)
-- @if postgres
) PARTITION BY RANGE (day);
-- @else
) WITHOUT ROWID;
-- @end

CREATE TABLE events (
  at             bigint   NOT NULL,
  id             bigint   NOT NULL,
  visitor        bigint   NOT NULL, -- with n and the day of at: the key of the visit
  value          bigint,            -- millionths of the currency's unit; negative for a refund
  site_id        integer  NOT NULL,
  n              smallint NOT NULL,
  name           text     NOT NULL,
  path           text     NOT NULL,
  currency       text,
  transaction_id text,
  properties     text,              -- JSON as sent, without what has a column
  PRIMARY KEY (site_id, at, id)     -- the order of the export
-- @if postgres
) PARTITION BY RANGE (at);
-- @else
) WITHOUT ROWID;
-- @end

-- Purchases and refunds that are recorded. Not cut by month, so that an id is unique for good.
CREATE TABLE transactions (
  site_id        bigint NOT NULL,
  transaction_id text   NOT NULL,
  event          text   NOT NULL, -- purchase or refund
  at             bigint NOT NULL,
  PRIMARY KEY (site_id, transaction_id)
) @without_rowid;

-- @if postgres
CREATE TABLE visits_default     PARTITION OF visits     DEFAULT;
CREATE TABLE pageviews_default  PARTITION OF pageviews  DEFAULT;
CREATE TABLE engagement_default PARTITION OF engagement DEFAULT;
CREATE TABLE events_default     PARTITION OF events     DEFAULT;

-- Partitions that retention has detached. They are dropped a day later.
CREATE TABLE detached_partitions (
  table_name  text    NOT NULL, -- one of the four tables
  month       integer NOT NULL,
  detached_at bigint  NOT NULL,
  PRIMARY KEY (table_name, month)
);
-- @end

-- Requests to erase all that was stored of one pseudonymous user id of a site. A job goes through the site's visits.
CREATE TABLE user_erasures (
  id           @identity,
  site_id      bigint  NOT NULL,
  subject      @bytes   NOT NULL, -- the keyed hash that visits have as their user_id
  requested_at bigint  NOT NULL, -- visits that began later stay
  last_day     integer  NOT NULL DEFAULT 0, -- key of the last visit that the job has gone through
  last_visitor bigint   NOT NULL DEFAULT 0,
  last_n       smallint NOT NULL DEFAULT 0,
  visits       bigint  NOT NULL DEFAULT 0, -- rows erased so far
  pageviews    bigint  NOT NULL DEFAULT 0,
  events       bigint  NOT NULL DEFAULT 0,
  deliveries   bigint  NOT NULL DEFAULT 0,
  finished_at  bigint  NOT NULL DEFAULT 0  -- 0: not yet
);
CREATE UNIQUE INDEX user_erasures_subject ON user_erasures (site_id, subject); -- asked for again, it begins again
CREATE INDEX user_erasures_open ON user_erasures (id) WHERE finished_at = 0;   -- the job

-- The captcha: sitekeys, what was used of an account's plan, and what may not be used again.

CREATE TABLE sitekeys (
  id          @identity,
  account_id  bigint NOT NULL REFERENCES accounts (id) ON DELETE CASCADE,
  sitekey     text   NOT NULL,
  name        text   NOT NULL,
  domains     text   NOT NULL, -- JSON array of domains; [] for a key that works everywhere
  secret_hash @bytes   NOT NULL, -- SHA-256
  secret_hint text   NOT NULL, -- the last characters, for the owner to recognise it by
  created_at  bigint NOT NULL
);
CREATE UNIQUE INDEX sitekeys_sitekey ON sitekeys (sitekey);         -- every challenge
CREATE UNIQUE INDEX sitekeys_secret_hash ON sitekeys (secret_hash); -- every call of the compatible endpoint
CREATE INDEX sitekeys_account ON sitekeys (account_id, id);         -- pages of an account's sitekeys

-- Verifications per account and UTC month. Its row is also the lock that makes the quota exact.
CREATE TABLE captcha_usage (
  account_id   bigint   NOT NULL,
  month        integer  NOT NULL,
  used         bigint   NOT NULL,
  reserve_from bigint   NOT NULL DEFAULT 0, -- the first verification after the quota
  over_quota   bigint   NOT NULL DEFAULT 0, -- the quota that reserve_from is about
  noticed      smallint NOT NULL DEFAULT 0, -- the highest threshold in percent with a row in quota_notices
  PRIMARY KEY (account_id, month)
-- @if postgres
) WITH (fillfactor = 20);
-- @else
) WITHOUT ROWID;
-- @end

-- Challenges and tokens that are used up. The time of issue stands before the random id, so that new rows come at the end
-- of an account's part of the key, and old ones are found without an index of their own. The test sitekey's account is 0.
CREATE TABLE captcha_spent (
  account_id bigint NOT NULL,
  issued_at  bigint NOT NULL,
  id         @bytes   NOT NULL,
  PRIMARY KEY (account_id, issued_at, id)
-- @if postgres
) WITH (autovacuum_vacuum_scale_factor = 0.05, autovacuum_vacuum_insert_scale_factor = 0.5);
-- @else
) WITHOUT ROWID;
-- @end

-- A quota of which a share was used, once per month and share.
CREATE TABLE quota_notices (
  account_id bigint  NOT NULL,
  site_id    bigint  NOT NULL DEFAULT 0, -- 0: the account's captcha
  product    text    NOT NULL,           -- captcha or analytics
  month      integer NOT NULL,
  threshold  integer NOT NULL,           -- percent
  created_at bigint  NOT NULL,
  mailed_at  bigint  NOT NULL DEFAULT 0, -- 0: the mails are still to be written
  PRIMARY KEY (account_id, site_id, product, month, threshold)
) @without_rowid;
CREATE INDEX quota_notices_new ON quota_notices (created_at) WHERE mailed_at = 0; -- the mailer

-- The worker's outbox: deliveries with their attempts, mails, and notices.

-- What has to be sent to owners: written with the fact itself, sent by the worker.
CREATE TABLE deliveries (
  site_id         bigint  NOT NULL,
  id              bigint  NOT NULL, -- grows with time: microseconds since 2020 * 4096 + random
  kind            text    NOT NULL, -- conversion
  event           text    NOT NULL,
  state           text    NOT NULL, -- pending, delivered or failed
  attempts        integer NOT NULL,
  created_at      bigint  NOT NULL,
  next_attempt_at bigint  NOT NULL,
  body            text    NOT NULL, -- sent byte by byte as it is, at each attempt
  tries           integer NOT NULL DEFAULT 0,  -- all attempts, also manual ones
  claimed_until   bigint  NOT NULL DEFAULT 0,  -- 0: no attempt is in progress
  fallback        text    NOT NULL DEFAULT '', -- the state before a manual redelivery; empty: none
  PRIMARY KEY (site_id, id)
);
CREATE INDEX deliveries_due ON deliveries (site_id, kind, next_attempt_at, id) WHERE state = 'pending'; -- the sweeper, lane by lane

-- Each call of an owner's address: written when it begins, completed when it ends.
CREATE TABLE delivery_attempts (
  site_id     bigint  NOT NULL,
  delivery_id bigint  NOT NULL,
  n           integer NOT NULL, -- 1 is the first
  manual      boolean NOT NULL, -- asked for manually, outside the five
  at          bigint  NOT NULL,
  duration_ms bigint  NOT NULL,
  status      integer NOT NULL, -- of HTTP; 0: no answer
  error       text    NOT NULL, -- class of the failure; empty: delivered
  answer      text    NOT NULL, -- how the answer's body begins
  PRIMARY KEY (site_id, delivery_id, n)
) @without_rowid;

CREATE TABLE mails (
  id              @identity,
  account_id      bigint  NOT NULL,
  recipient       text    NOT NULL,
  kind            text    NOT NULL,
  data            text    NOT NULL, -- JSON object, what the kind's text needs
  state           text    NOT NULL, -- pending, sent, failed or skipped
  attempts        integer NOT NULL,
  created_at      bigint  NOT NULL,
  next_attempt_at bigint  NOT NULL
);
CREATE INDEX mails_due ON mails (next_attempt_at) WHERE state = 'pending'; -- the sweeper
CREATE INDEX mails_account ON mails (account_id); -- deletion of an account

-- Which account was notified of failures on which day, so that it is notified once.
CREATE TABLE failure_notices (
  site_id bigint  NOT NULL,
  day     integer NOT NULL,
  PRIMARY KEY (site_id, day)
) @without_rowid;

-- How often the addresses of a site's webhooks were changed on a day, so that the mails about it are bounded.
CREATE TABLE webhook_notices (
  site_id bigint  NOT NULL,
  day     integer NOT NULL,
  changes integer NOT NULL,
  PRIMARY KEY (site_id, day)
) @without_rowid;

-- @if sqlite
-- The last changes of sites and sitekeys, for other processes on this file: they read them several times a second and drop what
-- they keep in memory of those rows. PostgreSQL notifies its clients instead.
CREATE TABLE changes (
  seq     INTEGER PRIMARY KEY, -- without gaps: the newest row stays
  channel TEXT    NOT NULL,    -- tallygate_site or tallygate_sitekey
  id      INTEGER NOT NULL,
  source  INTEGER NOT NULL     -- random number of the process, which knows of its own changes already
);
-- @end
