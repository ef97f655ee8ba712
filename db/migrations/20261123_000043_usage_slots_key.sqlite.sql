-- oldest program: 20261123_000043_usage_slots_key
-- SQLite cannot change the primary key of a table.
CREATE TABLE site_usage_new (
  site_id     bigint   NOT NULL,
  month       integer  NOT NULL,
  used        bigint   NOT NULL,
  reports     bigint   NOT NULL DEFAULT 0,
  reached     smallint NOT NULL DEFAULT 0,
  noted       smallint NOT NULL DEFAULT 0,
  slot        smallint NOT NULL DEFAULT 0, -- always 0 on SQLite; likewise the leases
  lease       bigint   NOT NULL DEFAULT 0,
  lease_quota bigint   NOT NULL DEFAULT -1,
  PRIMARY KEY (site_id, month, slot)
) WITHOUT ROWID;
INSERT INTO site_usage_new SELECT site_id, month, used, reports, reached, noted, slot, lease, lease_quota FROM site_usage;
DROP TABLE site_usage;
ALTER TABLE site_usage_new RENAME TO site_usage;
CREATE INDEX site_usage_month ON site_usage (month, site_id);
CREATE INDEX site_usage_marks ON site_usage (site_id, month) WHERE reached > noted;
