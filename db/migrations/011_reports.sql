-- oldest program: unchanged
-- Reports: the rows of finished days as column segments, and what owners store for the reports of a site.

-- A ledger of the days whose rows are stored as column segments. Days and segments belong to a site like its hits.
CREATE TABLE report_days (
  site_id   bigint   NOT NULL,
  day       integer  NOT NULL,
  state     smallint NOT NULL, -- 0 open, 1 final, 2 merged into its month, 3 sealed: merged, and its rows may be deleted
  version   bigint   NOT NULL, -- increases with each lease and each request to build the day again
  due_at    bigint,            -- next work: build, merge; also the end of a lease; NULL: none
  built_at  bigint   NOT NULL, -- 0: not yet
  visits    bigint   NOT NULL,
  pageviews bigint   NOT NULL,
  events    bigint   NOT NULL,
  checksum  bigint   NOT NULL, -- of the day's own segment
  PRIMARY KEY (site_id, day)
) @without_rowid;
CREATE INDEX report_days_due ON report_days (due_at, site_id, day) WHERE due_at IS NOT NULL; -- the worker
CREATE INDEX report_days_merged ON report_days (day, site_id) WHERE state = 2;               -- what retention must seal
CREATE INDEX report_days_day ON report_days (day);

-- The encoded segments, in chunks. SQLite keeps large values better in a table with row ids.
CREATE TABLE report_segments (
  site_id   bigint  NOT NULL,
  first_day integer NOT NULL,
  days      integer NOT NULL,
  chunk     integer NOT NULL,
  data      @bytes  NOT NULL,
  PRIMARY KEY (site_id, first_day, days, chunk)
);
-- @if postgres
ALTER TABLE report_segments ALTER COLUMN data SET STORAGE EXTERNAL;
-- @end
CREATE INDEX report_segments_day ON report_segments (first_day);

-- Notes of the owner on days of the reports.
CREATE TABLE annotations (
  id         @identity,
  site_id    bigint  NOT NULL REFERENCES sites (id) ON DELETE CASCADE,
  day        integer NOT NULL, -- of the site's time zone
  text       text    NOT NULL,
  created_at bigint  NOT NULL
);
CREATE INDEX annotations_site ON annotations (site_id, day, id); -- pages of a site's annotations, newest day first

-- Saved filters.
CREATE TABLE segments (
  id      @identity,
  site_id bigint NOT NULL REFERENCES sites (id) ON DELETE CASCADE,
  name    text   NOT NULL,
  filters text   NOT NULL -- JSON array of model.ReportFilter
);
CREATE UNIQUE INDEX segments_name ON segments (site_id, name); -- list of a site's segments

-- Saved funnels.
CREATE TABLE funnels (
  id      @identity,
  site_id bigint NOT NULL REFERENCES sites (id) ON DELETE CASCADE,
  name    text   NOT NULL,
  steps   text   NOT NULL -- JSON array of model.FunnelStep
);
CREATE UNIQUE INDEX funnels_name ON funnels (site_id, name); -- list of a site's funnels

-- Links that show the reports of a site to anybody who has their secret.
CREATE TABLE shared_links (
  id            @identity,
  site_id       bigint  NOT NULL REFERENCES sites (id) ON DELETE CASCADE,
  name          text    NOT NULL,
  token_hash    @bytes  NOT NULL, -- SHA-256
  token_hint    text    NOT NULL, -- the last characters, by which the owner recognises it
  password_hash text,             -- argon2id; NULL without a password
  segment_id    bigint,           -- filters of every report; a segment in use is not deleted
  created_at    bigint  NOT NULL,
  expires_at    bigint,                         -- NULL: never
  last_used_at  bigint,                         -- to the minute
  hides_revenue boolean NOT NULL DEFAULT false, -- from its readers
  sealed_token  @bytes  NOT NULL,               -- for the owner, who needs it again; encrypted with the application key
  origins       text    NOT NULL DEFAULT ''     -- of pages that may frame the report, a line each
);
CREATE UNIQUE INDEX shared_links_token ON shared_links (token_hash); -- a link is opened
CREATE INDEX shared_links_site ON shared_links (site_id, id);        -- list of a site's links

-- The period and the comparison that a user has last chosen for the report of a site.
CREATE TABLE report_views (
  site_id           bigint  NOT NULL REFERENCES sites (id) ON DELETE CASCADE,
  user_id           bigint  NOT NULL REFERENCES users (id) ON DELETE CASCADE,
  preset            text    NOT NULL,
  compare           text    NOT NULL, -- kind of the comparison; empty: none
  match_day_of_week boolean NOT NULL,
  PRIMARY KEY (site_id, user_id)
);
CREATE INDEX report_views_user ON report_views (user_id); -- deletion of a user
