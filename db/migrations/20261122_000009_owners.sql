-- How often the addresses of a site's webhooks were changed on a day, so that the mails about it are bounded.
CREATE TABLE webhook_notices (
  site_id bigint  NOT NULL,
  day     integer NOT NULL,
  changes integer NOT NULL,
  PRIMARY KEY (site_id, day)
){{.WithoutRowID}};

-- How often the password was changed. What a browser remembers of a sign-in counts for one generation.
ALTER TABLE users ADD COLUMN password_generation integer NOT NULL DEFAULT 0;

-- Whether a name led nowhere or into a private network is not for tenants to know.
UPDATE delivery_attempts SET error = 'no_address' WHERE error IN ('blocked', 'dns');

-- Requests to erase all that was stored of one pseudonymous user id of a site. A job goes through the site's visits.
CREATE TABLE user_erasures (
  id           {{.Identity}},
  site_id      bigint  NOT NULL,
  subject      {{.Bytes}}   NOT NULL, -- the keyed hash that visits have as their user_id
  requested_at bigint  NOT NULL, -- visits that began later stay
  last_visit   bigint  NOT NULL DEFAULT 0, -- id of the last visit that the job has gone through
  visits       bigint  NOT NULL DEFAULT 0, -- rows erased so far
  pageviews    bigint  NOT NULL DEFAULT 0,
  events       bigint  NOT NULL DEFAULT 0,
  deliveries   bigint  NOT NULL DEFAULT 0,
  finished_at  bigint  NOT NULL DEFAULT 0  -- 0: not yet
);
CREATE UNIQUE INDEX user_erasures_subject ON user_erasures (site_id, subject); -- asked for again, it begins again
CREATE INDEX user_erasures_open ON user_erasures (id) WHERE finished_at = 0;   -- the job
