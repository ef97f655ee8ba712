-- How often the addresses of a site's webhooks were changed on a day, so that the mails about it are bounded.
CREATE TABLE webhook_notices (
  site_id bigint  NOT NULL,
  day     integer NOT NULL,
  changes integer NOT NULL,
  PRIMARY KEY (site_id, day)
);

-- How often the password was changed. What a browser remembers of a sign-in counts for one generation.
ALTER TABLE users ADD COLUMN password_generation integer NOT NULL DEFAULT 0;

-- Whether a name led nowhere or into a private network is not for tenants to know.
UPDATE delivery_attempts SET error = 'no_address' WHERE error IN ('blocked', 'dns');
