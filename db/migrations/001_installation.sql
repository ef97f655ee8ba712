-- oldest program: unchanged
-- Times are microseconds since 1970 UTC (bigint), days are days since 1970, months are year*100+month.

-- What holds for the whole installation, such as the fingerprint of its application key.
CREATE TABLE settings (
  name  text PRIMARY KEY,
  value text NOT NULL
);

-- @if sqlite
-- The last changes of sites and sitekeys, for other processes on this file: they read them several times a second and drop what
-- they keep in memory of those rows. PostgreSQL notifies its clients instead.
CREATE TABLE changes (
  seq     INTEGER PRIMARY KEY, -- without gaps: the newest row stays
  channel TEXT    NOT NULL,    -- tallygate_site or tallygate_sitekey
  id      INTEGER NOT NULL
);
-- @end

-- Periodic tasks that have failed, as the runs of all processes ended. Other tasks have no row.
CREATE TABLE task_runs (
  name            text    NOT NULL PRIMARY KEY,
  failures        integer NOT NULL, -- since the last success
  first_failed_at bigint  NOT NULL, -- of these failures
  failed_at       bigint  NOT NULL, -- the last failure
  succeeded_at    bigint  NOT NULL  -- the first success after the last failure; 0: none
);
