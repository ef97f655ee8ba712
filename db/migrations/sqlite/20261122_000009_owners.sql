-- How often the addresses of a site's webhooks were changed on a day, so that the mails about it are bounded.
CREATE TABLE webhook_notices (
  site_id bigint  NOT NULL,
  day     integer NOT NULL,
  changes integer NOT NULL,
  PRIMARY KEY (site_id, day)
) WITHOUT ROWID;
