-- oldest program: unchanged
-- Imports that the console starts. A job reads an uploaded export for a preview, and stores it once it is confirmed.

CREATE TABLE import_jobs (
  id          @identity,
  site_id     bigint   NOT NULL,
  source      text     NOT NULL,
  state       smallint NOT NULL, -- 0 uploading, 1 reading, 2 ready, 3 storing, 4 complete, 5 failed, 6 canceled
  created_at  bigint   NOT NULL,
  expires_at  bigint   NOT NULL, -- while it waits for its upload, its turn or its confirmation
  finished_at bigint   NOT NULL DEFAULT 0,
  actor       text     NOT NULL, -- who started or confirmed it, for the audit log, as JSON; {} at the end
  files       text     NOT NULL, -- their names and sizes in the order of the upload, as JSON
  size        bigint   NOT NULL, -- bytes of all files
  received    bigint   NOT NULL DEFAULT 0,
  address     text     NOT NULL DEFAULT '', -- of an API
  token       @bytes,            -- of the API, encrypted; NULL at the end
  first_day   integer  NOT NULL,
  last_day    integer  NOT NULL,
  progress    smallint NOT NULL DEFAULT 0, -- of the present step, in thousandths
  preview     text     NOT NULL DEFAULT '', -- JSON
  error_code  text     NOT NULL DEFAULT '',
  error_text  text     NOT NULL DEFAULT '',
  error_file  text     NOT NULL DEFAULT '',
  error_line  integer  NOT NULL DEFAULT 0,
  import_id   bigint   NOT NULL DEFAULT 0, -- of report_imports, at the end

  -- The worker that runs the job.
  lease       text     NOT NULL DEFAULT '',
  lease_until bigint   NOT NULL DEFAULT 0,
  claimed_at  bigint   NOT NULL DEFAULT 0,
  attempts    integer  NOT NULL DEFAULT 0
);
CREATE INDEX import_jobs_site ON import_jobs (site_id, id);
CREATE UNIQUE INDEX import_jobs_open ON import_jobs (site_id) WHERE state < 4; -- one at a time

-- The files of a job, one after the other, in pieces of 1 MiB; of an API, what it has answered.
CREATE TABLE import_chunks (
  site_id bigint  NOT NULL,
  job_id  bigint  NOT NULL,
  n       integer NOT NULL,
  data    @bytes NOT NULL,
  PRIMARY KEY (site_id, job_id, n)
);
-- @if postgres
ALTER TABLE import_chunks ALTER COLUMN data SET STORAGE EXTERNAL;
-- @end

ALTER TABLE report_imports ADD COLUMN created_by bigint NOT NULL DEFAULT 0; -- the user; 0: a command
