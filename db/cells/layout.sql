-- The tables of a cell as the migrations leave them in the default cell on PostgreSQL; see the migrations for their meaning.
-- A migration that changes a cell's tables changes this file as well. Each statement ends with a line.
CREATE TABLE site_usage (
  site_id bigint  NOT NULL,
  month   integer NOT NULL,
  used    bigint  NOT NULL,
  reports bigint  NOT NULL DEFAULT 0,
  reached smallint NOT NULL DEFAULT 0,
  noted   smallint NOT NULL DEFAULT 0,
  PRIMARY KEY (site_id, month)
) WITH (fillfactor = 20);
CREATE INDEX site_usage_month ON site_usage (month, site_id);
CREATE INDEX site_usage_marks ON site_usage (site_id, month) WHERE reached > noted;

CREATE TABLE visits (
  visitor          bigint   NOT NULL,
  started_at       bigint   NOT NULL,
  site_id          integer  NOT NULL,
  day              integer  NOT NULL,
  n                smallint NOT NULL,
  channel          smallint NOT NULL,
  pageviews        integer  NOT NULL,
  last_pageview_at bigint   NOT NULL,
  recent           bytea    NOT NULL DEFAULT '',
  awaited          bytea    NOT NULL DEFAULT '',
  viewed           bytea    NOT NULL DEFAULT '',
  user_id          bytea    NOT NULL DEFAULT '',
  attribution      text     NOT NULL DEFAULT '',
  client           text     NOT NULL DEFAULT '',
  PRIMARY KEY (site_id, day, visitor, n)
) PARTITION BY RANGE (day);

CREATE TABLE pageviews (
  at          bigint   NOT NULL,
  id          bigint   NOT NULL,
  visitor     bigint   NOT NULL,
  site_id     integer  NOT NULL,
  n           smallint NOT NULL,
  width_range smallint NOT NULL,
  manual      boolean  NOT NULL,
  path        text     NOT NULL,
  language    text     NOT NULL DEFAULT ''
) PARTITION BY RANGE (at);
CREATE INDEX pageviews_at ON pageviews (site_id, at);

CREATE TABLE engagement (
  id          bigint   NOT NULL,
  site_id     integer  NOT NULL,
  day         integer  NOT NULL,
  ms          integer  NOT NULL,
  scroll      smallint NOT NULL,
  repeated_at bigint,
  PRIMARY KEY (site_id, day, id)
) PARTITION BY RANGE (day);

CREATE TABLE events (
  at             bigint   NOT NULL,
  id             bigint   NOT NULL,
  visitor        bigint   NOT NULL,
  value          bigint,
  site_id        integer  NOT NULL,
  n              smallint NOT NULL,
  name           text     NOT NULL,
  path           text     NOT NULL,
  currency       text,
  transaction_id text,
  properties     text,
  PRIMARY KEY (site_id, at, id)
) PARTITION BY RANGE (at);

CREATE TABLE visits_default PARTITION OF visits DEFAULT;
CREATE TABLE pageviews_default PARTITION OF pageviews DEFAULT;
CREATE TABLE engagement_default PARTITION OF engagement DEFAULT;
CREATE TABLE events_default PARTITION OF events DEFAULT;
-- It has no primary key. Without an identity Citus could not move the schema while rows are deleted.
ALTER TABLE pageviews_default REPLICA IDENTITY FULL;

CREATE TABLE detached_partitions (
  table_name  text    NOT NULL,
  month       integer NOT NULL,
  detached_at bigint  NOT NULL,
  PRIMARY KEY (table_name, month)
);

CREATE TABLE transactions (
  site_id        bigint NOT NULL,
  transaction_id text   NOT NULL,
  event          text   NOT NULL,
  at             bigint NOT NULL,
  PRIMARY KEY (site_id, transaction_id)
);

CREATE TABLE deliveries (
  site_id         bigint  NOT NULL,
  id              bigint  NOT NULL,
  kind            text    NOT NULL,
  event           text    NOT NULL,
  state           text    NOT NULL,
  attempts        integer NOT NULL,
  created_at      bigint  NOT NULL,
  next_attempt_at bigint  NOT NULL,
  body            text    NOT NULL,
  tries           integer NOT NULL DEFAULT 0,
  claimed_until   bigint  NOT NULL DEFAULT 0,
  fallback        text    NOT NULL DEFAULT '',
  url             text    NOT NULL DEFAULT '',
  PRIMARY KEY (site_id, id)
);
CREATE INDEX deliveries_due ON deliveries (site_id, kind, next_attempt_at, id) WHERE state = 'pending';
CREATE INDEX deliveries_kind ON deliveries (site_id, kind, state, id);
CREATE INDEX deliveries_event ON deliveries (site_id, event, state, id);
CREATE INDEX deliveries_waiting ON deliveries (site_id, kind, created_at, id) WHERE state = 'waiting';
CREATE INDEX deliveries_finished ON deliveries (id) WHERE state <> 'pending';
CREATE INDEX deliveries_next ON deliveries (next_attempt_at) WHERE state = 'pending';

CREATE TABLE delivery_attempts (
  site_id     bigint  NOT NULL,
  delivery_id bigint  NOT NULL,
  n           integer NOT NULL,
  manual      boolean NOT NULL,
  at          bigint  NOT NULL,
  duration_ms bigint  NOT NULL,
  status      integer NOT NULL,
  error       text    NOT NULL,
  answer      text    NOT NULL,
  PRIMARY KEY (site_id, delivery_id, n)
);

CREATE TABLE site_usage_days (
  site_id bigint  NOT NULL,
  day     integer NOT NULL,
  used    bigint  NOT NULL,
  PRIMARY KEY (site_id, day)
);
CREATE INDEX site_usage_days_day ON site_usage_days (day);

CREATE TABLE report_days (
  site_id   bigint   NOT NULL,
  day       integer  NOT NULL,
  state     smallint NOT NULL,
  version   bigint   NOT NULL,
  due_at    bigint,
  built_at  bigint   NOT NULL,
  visits    bigint   NOT NULL,
  pageviews bigint   NOT NULL,
  events    bigint   NOT NULL,
  checksum  bigint   NOT NULL,
  PRIMARY KEY (site_id, day)
);
CREATE INDEX report_days_due ON report_days (due_at, site_id, day) WHERE due_at IS NOT NULL;
CREATE INDEX report_days_merged ON report_days (day, site_id) WHERE state = 2;
CREATE INDEX report_days_day ON report_days (day);

-- Like that of the default cell, because Citus cannot change a column's storage afterwards.
CREATE TABLE report_segments (
  LIKE report_segments INCLUDING STORAGE,
  PRIMARY KEY (site_id, first_day, days, chunk)
);
CREATE INDEX report_segments_day ON report_segments (first_day);

CREATE TABLE captcha_usage (
  account_id   bigint   NOT NULL,
  month        integer  NOT NULL,
  used         bigint   NOT NULL,
  reserve_from bigint   NOT NULL DEFAULT 0,
  over_quota   bigint   NOT NULL DEFAULT 0,
  noticed      smallint NOT NULL DEFAULT 0,
  PRIMARY KEY (account_id, month)
) WITH (fillfactor = 20);
CREATE INDEX captcha_usage_month ON captcha_usage (month, account_id);

CREATE TABLE captcha_spent (
  account_id bigint NOT NULL,
  issued_at  bigint NOT NULL,
  id         bytea  NOT NULL,
  PRIMARY KEY (account_id, issued_at, id)
) WITH (autovacuum_vacuum_scale_factor = 0.05, autovacuum_vacuum_insert_scale_factor = 0.5);
