-- oldest program: unchanged
-- The worker's outbox: deliveries with their attempts, mails, and notices.

-- What has to be sent to owners: written with the fact itself, sent by the worker.
CREATE TABLE deliveries (
  site_id         bigint  NOT NULL,
  id              bigint  NOT NULL, -- grows with time: microseconds since 2020 * 4096 + random
  kind            text    NOT NULL, -- conversion
  event           text    NOT NULL,
  state           text    NOT NULL, -- pending, delivered or failed
  attempts        integer NOT NULL,
  created_at      bigint  NOT NULL,
  next_attempt_at bigint  NOT NULL,
  body            text    NOT NULL,            -- sent byte by byte as it is, at each attempt
  tries           integer NOT NULL DEFAULT 0,  -- all attempts, also manual ones
  claimed_until   bigint  NOT NULL DEFAULT 0,  -- 0: no attempt is in progress
  fallback        text    NOT NULL DEFAULT '', -- the state before a manual redelivery; empty: none
  url             text    NOT NULL DEFAULT '', -- address of the last attempt; empty before the first one
  PRIMARY KEY (site_id, id)
);
CREATE INDEX deliveries_due ON deliveries (site_id, kind, next_attempt_at, id) WHERE state = 'pending'; -- the sweeper, lane by lane
CREATE INDEX deliveries_kind ON deliveries (site_id, kind, state, id);   -- an owner's filters
CREATE INDEX deliveries_event ON deliveries (site_id, event, state, id); -- likewise; the parts of a day
CREATE INDEX deliveries_waiting ON deliveries (site_id, kind, created_at, id) WHERE state = 'waiting'; -- those without an address
CREATE INDEX deliveries_finished ON deliveries (id) WHERE state <> 'pending'; -- housekeeping
CREATE INDEX deliveries_next ON deliveries (next_attempt_at) WHERE state = 'pending'; -- the sweeper: what is due

-- Each call of an owner's address: written when it begins, completed when it ends.
CREATE TABLE delivery_attempts (
  site_id     bigint  NOT NULL,
  delivery_id bigint  NOT NULL,
  n           integer NOT NULL, -- 1 is the first
  manual      boolean NOT NULL, -- asked for manually, outside the five
  at          bigint  NOT NULL,
  duration_ms bigint  NOT NULL,
  status      integer NOT NULL, -- of HTTP; 0: no answer
  error       text    NOT NULL, -- class of the failure; empty: delivered
  answer      text    NOT NULL, -- how the answer's body begins
  PRIMARY KEY (site_id, delivery_id, n)
) @without_rowid;

-- Which account was notified of failures on which day, so that it is notified once.
CREATE TABLE failure_notices (
  site_id bigint  NOT NULL,
  day     integer NOT NULL,
  PRIMARY KEY (site_id, day)
) @without_rowid;
CREATE INDEX failure_notices_day ON failure_notices (day);

-- How often the addresses of a site's webhooks were changed on a day, so that the mails about it are bounded.
CREATE TABLE webhook_notices (
  site_id bigint  NOT NULL,
  day     integer NOT NULL,
  changes integer NOT NULL,
  PRIMARY KEY (site_id, day)
) @without_rowid;
CREATE INDEX webhook_notices_day ON webhook_notices (day);

CREATE TABLE mails (
  id              @identity,
  account_id      bigint  NOT NULL,
  recipient       text    NOT NULL,
  kind            text    NOT NULL,
  data            text    NOT NULL, -- JSON object, what the kind's text needs
  state           text    NOT NULL, -- pending, sent, failed or skipped
  attempts        integer NOT NULL,
  created_at      bigint  NOT NULL,
  next_attempt_at bigint  NOT NULL,
  language        text    NOT NULL DEFAULT 'en' -- the user's; without a user, of the request
);
CREATE INDEX mails_due ON mails (next_attempt_at) WHERE state = 'pending'; -- the sweeper
CREATE INDEX mails_account ON mails (account_id); -- deletion of an account
CREATE INDEX mails_alerts ON mails (recipient, created_at) WHERE kind IN ('alert', 'alert_confirm'); -- of an address and day, which are bounded
