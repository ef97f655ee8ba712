-- oldest program: unchanged
-- Periodic tasks that have failed, as the runs of all processes ended. Other tasks have no row.
CREATE TABLE task_runs (
  name            text    NOT NULL PRIMARY KEY,
  failures        integer NOT NULL, -- since the last success
  first_failed_at bigint  NOT NULL, -- of these failures
  failed_at       bigint  NOT NULL, -- the last failure
  succeeded_at    bigint  NOT NULL  -- the first success after the last failure; 0: none
);
