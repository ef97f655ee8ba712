-- oldest program: unchanged
-- Imports of the reports of other services.

-- An import is visible from the transaction that completes it until the one that begins its deletion.
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
  size         bigint   NOT NULL,          -- daily sums, or page views and events: what a report reads
  created_by   bigint   NOT NULL DEFAULT 0 -- the user; 0: a command
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
  data      @bytes  NOT NULL,
  PRIMARY KEY (site_id, import_id, first_day, days, chunk)
);
-- @if postgres
ALTER TABLE import_segments ALTER COLUMN data SET STORAGE EXTERNAL;
-- @end

-- Imports that the console starts. A job reads an uploaded export for a preview, and stores it once it is confirmed.
CREATE TABLE import_jobs (
  id           @identity,
  site_id      bigint   NOT NULL,
  source       text     NOT NULL,
  state        smallint NOT NULL, -- 0 uploading, 1 reading, 2 ready, 3 storing, 4 complete, 5 failed, 6 canceled
  created_at   bigint   NOT NULL,
  expires_at   bigint   NOT NULL, -- while it waits for its upload, its turn or its confirmation
  finished_at  bigint   NOT NULL DEFAULT 0,
  actor        text     NOT NULL, -- who started or confirmed it, for the audit log, as JSON; {} at the end
  files        text     NOT NULL, -- their names and sizes in the order of the upload, as JSON
  size         bigint   NOT NULL, -- bytes of all files
  received     bigint   NOT NULL DEFAULT 0,
  address      text     NOT NULL DEFAULT '', -- of an API
  token        @bytes,                       -- of the API, encrypted; NULL at the end
  first_day    integer  NOT NULL,
  last_day     integer  NOT NULL,
  progress     smallint NOT NULL DEFAULT 0,  -- of the present step, in thousandths
  preview      text     NOT NULL DEFAULT '', -- JSON
  error_code   text     NOT NULL DEFAULT '',
  error_text   text     NOT NULL DEFAULT '',
  error_file   text     NOT NULL DEFAULT '',
  error_line   integer  NOT NULL DEFAULT 0,
  import_id    bigint   NOT NULL DEFAULT 0, -- of report_imports, at the end

  -- The worker that runs the job.
  lease        text     NOT NULL DEFAULT '',
  lease_until  bigint   NOT NULL DEFAULT 0,
  claimed_at   bigint   NOT NULL DEFAULT 0,
  attempts     integer  NOT NULL DEFAULT 0,

  -- What the job uses of the workers, which accounts share.
  bytes_read   bigint   NOT NULL DEFAULT 0, -- uncompressed, for the preview
  ran          bigint   NOT NULL DEFAULT 0, -- microseconds, of all steps

  error_values text     NOT NULL DEFAULT '' -- of the message, by which clients write it in their own language; JSON; empty: none
);
CREATE INDEX import_jobs_site ON import_jobs (site_id, id);
CREATE UNIQUE INDEX import_jobs_open ON import_jobs (site_id) WHERE state < 4; -- one at a time

-- The files of a job, one after the other, in pieces of 1 MiB; of an API, what it has answered.
CREATE TABLE import_chunks (
  site_id bigint  NOT NULL,
  job_id  bigint  NOT NULL,
  n       integer NOT NULL,
  data    @bytes  NOT NULL,
  PRIMARY KEY (site_id, job_id, n)
);
-- @if postgres
ALTER TABLE import_chunks ALTER COLUMN data SET STORAGE EXTERNAL;
-- @end
