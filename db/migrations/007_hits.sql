-- oldest program: unchanged

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
  last_pageview_at bigint   NOT NULL,            -- 0: only events so far
  recent           @bytes   NOT NULL DEFAULT '', -- latest automatic page views, see db/model.PackRecent
  awaited          @bytes   NOT NULL DEFAULT '', -- page views that events have named and that have not arrived
  viewed           @bytes   NOT NULL DEFAULT '', -- latest page view ids, which events may name
  user_id          @bytes   NOT NULL DEFAULT '', -- keyed hash of the owner's pseudonymous id
  attribution      text     NOT NULL DEFAULT '', -- referrer and campaign, see db/model.PackAttribution
  client           text     NOT NULL DEFAULT '', -- coarse values of the browser that opened it, see model.Client; empty: none kept
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
  properties     text,          -- JSON as sent, without what has a column
  PRIMARY KEY (site_id, at, id) -- the order of the export
-- @if postgres
) PARTITION BY RANGE (at);
-- @else
) WITHOUT ROWID;
-- @end

-- @if postgres
CREATE TABLE visits_default     PARTITION OF visits     DEFAULT;
CREATE TABLE pageviews_default  PARTITION OF pageviews  DEFAULT;
CREATE TABLE engagement_default PARTITION OF engagement DEFAULT;
CREATE TABLE events_default     PARTITION OF events     DEFAULT;
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
  site_id      bigint   NOT NULL,
  subject      @bytes   NOT NULL,           -- the keyed hash that visits have as their user_id
  requested_at bigint   NOT NULL,           -- visits that began later stay
  last_day     integer  NOT NULL DEFAULT 0, -- key of the last visit that the job has gone through
  last_visitor bigint   NOT NULL DEFAULT 0,
  last_n       smallint NOT NULL DEFAULT 0,
  visits       bigint   NOT NULL DEFAULT 0, -- rows erased so far
  pageviews    bigint   NOT NULL DEFAULT 0,
  events       bigint   NOT NULL DEFAULT 0,
  deliveries   bigint   NOT NULL DEFAULT 0,
  finished_at  bigint   NOT NULL DEFAULT 0 -- 0: not yet
);
CREATE UNIQUE INDEX user_erasures_subject ON user_erasures (site_id, subject); -- asked for again, it begins again
CREATE INDEX user_erasures_open ON user_erasures (id) WHERE finished_at = 0;   -- the job

-- @if postgres
-- The days' salts, in turn. SQLite keeps salts in files.
CREATE UNLOGGED TABLE day_salts_0 (day integer PRIMARY KEY, salt bytea NOT NULL);
CREATE UNLOGGED TABLE day_salts_1 (LIKE day_salts_0 INCLUDING ALL);
CREATE UNLOGGED TABLE day_salts_2 (LIKE day_salts_0 INCLUDING ALL);
CREATE UNLOGGED TABLE day_salts_3 (LIKE day_salts_0 INCLUDING ALL);
-- @end
