-- The worker's outbox: deliveries with their attempts, mails, and notices of used-up quotas.

ALTER TABLE sites ADD COLUMN conversion_webhook_secret {{.Bytes}}; -- encrypted with the application key; NULL: nothing is signed
ALTER TABLE sites ADD COLUMN daily_export_url text;
ALTER TABLE sites ADD COLUMN daily_export_day integer NOT NULL DEFAULT 0; -- the next day to export; 0 without an address
CREATE INDEX sites_daily_export ON sites (daily_export_day) WHERE daily_export_url IS NOT NULL; -- the nightly plan

ALTER TABLE deliveries ADD COLUMN tries integer NOT NULL DEFAULT 0;         -- all attempts, also those asked for by hand
ALTER TABLE deliveries ADD COLUMN claimed_until bigint NOT NULL DEFAULT 0;  -- 0: no attempt is under way
ALTER TABLE deliveries ADD COLUMN fallback text NOT NULL DEFAULT '';        -- the state before a redelivery by hand; empty: none
DROP INDEX deliveries_due;
CREATE INDEX deliveries_due ON deliveries (site_id, kind, next_attempt_at, id) WHERE state = 'pending'; -- the sweeper, lane by lane

-- Each call of an owner's address: written when it begins, completed when it ends.
CREATE TABLE delivery_attempts (
  site_id     bigint  NOT NULL,
  delivery_id bigint  NOT NULL,
  n           integer NOT NULL, -- 1 is the first
  manual      boolean NOT NULL, -- asked for by hand, outside the five
  at          bigint  NOT NULL,
  duration_ms bigint  NOT NULL,
  status      integer NOT NULL, -- of HTTP; 0: no answer
  error       text    NOT NULL, -- class of the failure; empty: delivered
  answer      text    NOT NULL, -- how the answer's body begins
  PRIMARY KEY (site_id, delivery_id, n)
){{.WithoutRowID}};

CREATE TABLE mails (
  id              {{.Identity}},
  account_id      bigint  NOT NULL,
  recipient       text    NOT NULL,
  kind            text    NOT NULL,
  data            text    NOT NULL, -- JSON object, what the kind's text needs
  state           text    NOT NULL, -- pending, sent, failed or skipped
  attempts        integer NOT NULL,
  created_at      bigint  NOT NULL,
  next_attempt_at bigint  NOT NULL
);
CREATE INDEX mails_due ON mails (next_attempt_at) WHERE state = 'pending'; -- the sweeper

-- Which account was told of which failure on which day, so that it is told once.
CREATE TABLE failure_notices (
  site_id bigint  NOT NULL,
  day     integer NOT NULL,
  PRIMARY KEY (site_id, day)
){{.WithoutRowID}};
