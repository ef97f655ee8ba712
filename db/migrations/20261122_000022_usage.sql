-- oldest program: unchanged
-- Counters by day that owners read: the calls of a captcha, names of refused unknown events, and a site's usage.

CREATE TABLE captcha_counts (
  sitekey_id bigint  NOT NULL,
  day        integer NOT NULL,
  name       text    NOT NULL, -- what is counted, see model.CaptchaChallenge
  count      bigint  NOT NULL,
  PRIMARY KEY (sitekey_id, day, name)
-- @if postgres
) WITH (fillfactor = 50);
-- @else
) WITHOUT ROWID;
-- @end

-- A site has a bounded number of names for a day.
CREATE TABLE unknown_events (
  site_id bigint  NOT NULL,
  day     integer NOT NULL,
  name    text    NOT NULL,
  count   bigint  NOT NULL,
  PRIMARY KEY (site_id, day, name)
-- @if postgres
) WITH (fillfactor = 50);
-- @else
) WITHOUT ROWID;
-- @end

-- Page views and events of finished UTC days, counted once after the day.
CREATE TABLE site_usage_days (
  site_id bigint  NOT NULL,
  day     integer NOT NULL,
  used    bigint  NOT NULL,
  PRIMARY KEY (site_id, day)
) @without_rowid;
