-- oldest program: unchanged
-- Sites and their settings.

CREATE TABLE sites (
  id                         @identity CHECK (id < 2147483648), -- the tables of hits hold it in 4 bytes
  account_id                 bigint   NOT NULL REFERENCES accounts (id) ON DELETE CASCADE,
  site_key                   text     NOT NULL,
  domain                     text     NOT NULL,
  name                       text     NOT NULL,
  plan                       text     NOT NULL,
  monthly_pageviews          bigint   NOT NULL CHECK (monthly_pageviews >= 0),
  measure_site_search        boolean  NOT NULL DEFAULT false,
  measure_ecommerce          boolean  NOT NULL DEFAULT false,
  allow_pseudonymous_user_id boolean  NOT NULL DEFAULT false,
  automatic_events           boolean  NOT NULL DEFAULT true,
  server_secret_hash         @bytes, -- SHA-256
  server_secret_hint         text,   -- the last characters, for the owner to recognise it by
  conversion_webhook_url     text,
  created_at                 bigint   NOT NULL,
  conversion_webhook_secret  @bytes, -- encrypted with the application key; NULL: nothing is signed
  daily_export_url           text,
  daily_export_day           integer  NOT NULL DEFAULT 0,     -- the next day to export; 0 without an address
  time_zone                  text     NOT NULL DEFAULT 'UTC', -- IANA name
  paused_at                  bigint   NOT NULL DEFAULT 0,     -- 0: not paused
  deleted_at                 bigint   NOT NULL DEFAULT 0,     -- 0: not deleted; others can be restored for a week

  -- Secrets that a rotation replaced and that remain valid for a while. The columns are NULL without one.
  old_server_secret_hash     @bytes, -- SHA-256
  old_server_secret_hint     text,
  old_server_secret_until    bigint,
  old_webhook_secret         @bytes, -- encrypted with the application key, like the current one
  old_webhook_secret_until   bigint,

  cell                       bigint   NOT NULL DEFAULT 1,
  cell_closed                boolean  NOT NULL DEFAULT false, -- its rows are being moved: no hit is stored

  -- What visits keep of browsers, and which hits are left out. Lists have a value in each line.
  visit_details              text     NOT NULL DEFAULT '',
  excluded_countries         text     NOT NULL DEFAULT '',
  excluded_paths             text     NOT NULL DEFAULT '',
  shields                    text     NOT NULL DEFAULT '',
  small_group                integer  NOT NULL DEFAULT 3     -- visitors, below which a group is too small to be shown
);
CREATE UNIQUE INDEX sites_site_key ON sites (site_key);                     -- every hit of a browser
CREATE UNIQUE INDEX sites_server_secret_hash ON sites (server_secret_hash); -- every call of a server
CREATE INDEX sites_account ON sites (account_id, id); -- pages of an account's sites
CREATE INDEX sites_daily_export ON sites (daily_export_day) WHERE daily_export_url IS NOT NULL; -- the nightly plan
CREATE UNIQUE INDEX sites_account_domain ON sites (account_id, domain) WHERE deleted_at = 0;
CREATE INDEX sites_deleted ON sites (deleted_at, id) WHERE deleted_at > 0; -- housekeeping
CREATE UNIQUE INDEX sites_old_server_secret ON sites (old_server_secret_hash)
  WHERE old_server_secret_hash IS NOT NULL; -- every call of a server that still uses it
CREATE INDEX sites_old_server_secret_until ON sites (old_server_secret_until)
  WHERE old_server_secret_until IS NOT NULL; -- housekeeping
CREATE INDEX sites_old_webhook_secret_until ON sites (old_webhook_secret_until)
  WHERE old_webhook_secret_until IS NOT NULL; -- housekeeping
CREATE INDEX sites_cell ON sites (cell); -- the cell with the fewest sites

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

-- The counts at which a user has hidden the notices of a site's page.
CREATE TABLE hidden_notices (
  site_id    bigint NOT NULL REFERENCES sites (id) ON DELETE CASCADE,
  user_id    bigint NOT NULL REFERENCES users (id) ON DELETE CASCADE,
  rejections bigint NOT NULL,
  usage      bigint NOT NULL, -- percent of the quota
  hidden_at  bigint NOT NULL,
  PRIMARY KEY (site_id, user_id)
);
CREATE INDEX hidden_notices_user ON hidden_notices (user_id); -- deletion of a user
