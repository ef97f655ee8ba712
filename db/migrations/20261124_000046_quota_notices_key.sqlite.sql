-- oldest program: 20261124_000046_quota_notices_key
-- SQLite cannot change the primary key of a table.
CREATE TABLE quota_notices_changed (
  account_id bigint  NOT NULL,
  site_id    bigint  NOT NULL DEFAULT 0,
  product    text    NOT NULL,
  month      integer NOT NULL,
  threshold  integer NOT NULL,
  created_at bigint  NOT NULL,
  mailed_at  bigint  NOT NULL DEFAULT 0,
  quota      bigint  NOT NULL DEFAULT 0,
  PRIMARY KEY (account_id, site_id, product, month, threshold, quota)
) WITHOUT ROWID;
INSERT INTO quota_notices_changed SELECT account_id, site_id, product, month, threshold, created_at, mailed_at, quota FROM quota_notices;
DROP TABLE quota_notices;
ALTER TABLE quota_notices_changed RENAME TO quota_notices;
CREATE INDEX quota_notices_new ON quota_notices (created_at) WHERE mailed_at = 0;
