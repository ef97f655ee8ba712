-- oldest program: unchanged
-- What sites use of their quotas, and what was refused. Indexes by age alone are for housekeeping.

-- Page views and events per site and UTC month. Its row is also the lock that writers of one site take turns on.
CREATE TABLE site_usage (
  site_id bigint   NOT NULL,
  month   integer  NOT NULL,
  used    bigint   NOT NULL,
  reports bigint   NOT NULL DEFAULT 0, -- rows of engagement that the month added; used bounds them

  -- The writer marks the thresholds that a month has reached, and a job turns the marks into notices. So neither the time of
  -- the job nor that of a hit depends on how many other sites there are.
  reached smallint NOT NULL DEFAULT 0, -- highest threshold of the quota reached, in percent
  noted   smallint NOT NULL DEFAULT 0, -- the threshold up to which quota_notices has the notices
  PRIMARY KEY (site_id, month)
-- @if postgres
) WITH (fillfactor = 20);
-- @else
) WITHOUT ROWID;
-- @end
CREATE INDEX site_usage_month ON site_usage (month, site_id); -- the sites with hits in a month, of which days are planned
CREATE INDEX site_usage_marks ON site_usage (site_id, month) WHERE reached > noted; -- the job

-- Page views and events of finished UTC days, counted once after the day.
CREATE TABLE site_usage_days (
  site_id bigint  NOT NULL,
  day     integer NOT NULL,
  used    bigint  NOT NULL,
  PRIMARY KEY (site_id, day)
) @without_rowid;
CREATE INDEX site_usage_days_day ON site_usage_days (day);

-- Calls that were refused or ignored, by day, endpoint and code. Added up in memory and flushed.
CREATE TABLE rejections (
  site_id  bigint  NOT NULL,
  day      integer NOT NULL,
  endpoint text    NOT NULL,
  code     text    NOT NULL,
  count    bigint  NOT NULL,
  PRIMARY KEY (site_id, day, endpoint, code)
-- @if postgres
) WITH (fillfactor = 50);
-- @else
) WITHOUT ROWID;
-- @end
CREATE INDEX rejections_day ON rejections (day);

-- Names of refused unknown events by day. A site has a bounded number of names for a day.
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
CREATE INDEX unknown_events_day ON unknown_events (day);

-- A quota of which a share was used, once per month, share and quota.
CREATE TABLE quota_notices (
  account_id bigint  NOT NULL,
  site_id    bigint  NOT NULL DEFAULT 0, -- 0: the account's captcha
  product    text    NOT NULL,           -- captcha or analytics
  month      integer NOT NULL,
  threshold  integer NOT NULL, -- percent
  created_at bigint  NOT NULL,
  mailed_at  bigint  NOT NULL DEFAULT 0, -- 0: the mails are still to be written
  quota      bigint  NOT NULL, -- a threshold belongs to a quota: after a change of the plan, owners are notified again
  PRIMARY KEY (account_id, site_id, product, month, threshold, quota)
) @without_rowid;
CREATE INDEX quota_notices_new ON quota_notices (created_at) WHERE mailed_at = 0; -- the mailer
