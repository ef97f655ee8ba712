-- oldest program: unchanged
-- Reports of other services. An import is visible from the transaction that completes it until the one that begins its deletion.

CREATE TABLE report_imports (
  id           @identity,
  site_id      bigint   NOT NULL,
  source       text     NOT NULL, -- plausible, umami, goatcounter, ga4
  state        smallint NOT NULL, -- 0 loading, 1 complete, 2 deleting
  created_at   bigint   NOT NULL,
  completed_at bigint,            -- NULL: not yet
  first_day    integer  NOT NULL, -- of the site's time zone for daily sums, of UTC for visits
  last_day     integer  NOT NULL,
  visit_rows   boolean  NOT NULL, -- import_segments has its visits; otherwise import_figures has daily sums
  dimensions   text     NOT NULL, -- of the daily sums, separated by spaces
  visitors     bigint   NOT NULL,
  visits       bigint   NOT NULL,
  pageviews    bigint   NOT NULL,
  events       bigint   NOT NULL,
  size         bigint   NOT NULL  -- daily sums, or page views and events: what a report reads
);
CREATE INDEX report_imports_site ON report_imports (site_id);
CREATE UNIQUE INDEX report_imports_loading ON report_imports (site_id) WHERE state = 0; -- one at a time

-- Daily sums. Values can be longer than an index entry of PostgreSQL, so that they are not part of the key.
CREATE TABLE import_figures (
  site_id   bigint  NOT NULL,
  import_id bigint  NOT NULL,
  dimension text    NOT NULL, -- empty: the totals
  day       integer NOT NULL,
  n         integer NOT NULL,
  value     text    NOT NULL,
  visitors  bigint  NOT NULL,
  visits    bigint  NOT NULL,
  pageviews bigint  NOT NULL,
  bounces   bigint  NOT NULL,
  unbounced bigint  NOT NULL, -- visits of which the source does not say whether they bounced
  exits     bigint  NOT NULL,
  events    bigint  NOT NULL,
  PRIMARY KEY (site_id, import_id, dimension, day, n)
) @without_rowid;

-- Visits, in the form of report_segments.
CREATE TABLE import_segments (
  site_id   bigint  NOT NULL,
  import_id bigint  NOT NULL,
  first_day integer NOT NULL,
  days      integer NOT NULL,
  chunk     integer NOT NULL,
  data      @bytes NOT NULL,
  PRIMARY KEY (site_id, import_id, first_day, days, chunk)
);
-- @if postgres
ALTER TABLE import_segments ALTER COLUMN data SET STORAGE EXTERNAL;
-- @end
