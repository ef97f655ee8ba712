-- oldest program: unchanged
-- Reports: the rows of finished days as column segments, and a ledger of the days. Both belong to a site like its hits.

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

-- The encoded segments, in chunks. SQLite keeps large values better in a table with row ids.
CREATE TABLE report_segments (
  site_id   bigint  NOT NULL,
  first_day integer NOT NULL,
  days      integer NOT NULL,
  chunk     integer NOT NULL,
  data      @bytes   NOT NULL,
  PRIMARY KEY (site_id, first_day, days, chunk)
);
-- @if postgres
ALTER TABLE report_segments ALTER COLUMN data SET STORAGE EXTERNAL;
-- @end
CREATE INDEX site_usage_month ON site_usage (month, site_id); -- the sites with hits in a month, of which days are planned
