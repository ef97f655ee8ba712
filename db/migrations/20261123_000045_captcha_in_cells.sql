-- oldest program: unchanged
-- in each cell
-- Usage and claims of the captcha; the default cell has the tables already.
CREATE TABLE IF NOT EXISTS captcha_usage (
  account_id   bigint   NOT NULL,
  month        integer  NOT NULL,
  used         bigint   NOT NULL,
  reserve_from bigint   NOT NULL DEFAULT 0,
  over_quota   bigint   NOT NULL DEFAULT 0,
  noticed      smallint NOT NULL DEFAULT 0,
  PRIMARY KEY (account_id, month)
-- @if postgres
) WITH (fillfactor = 20);
-- @else
);
-- @end
CREATE INDEX IF NOT EXISTS captcha_usage_month ON captcha_usage (month, account_id);
CREATE TABLE IF NOT EXISTS captcha_spent (
  account_id bigint NOT NULL,
  issued_at  bigint NOT NULL,
  id         @bytes NOT NULL,
  PRIMARY KEY (account_id, issued_at, id)
-- @if postgres
) WITH (autovacuum_vacuum_scale_factor = 0.05, autovacuum_vacuum_insert_scale_factor = 0.5);
-- @else
);
-- @end
