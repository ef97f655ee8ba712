-- oldest program: 20261123_000043_usage_slots_columns
-- in each cell
-- A site has a row for each slot and month. The quota of a site with several slots is leased to them: the sum of the leases
-- is below the next threshold of the quota.
ALTER TABLE site_usage ADD COLUMN slot smallint NOT NULL DEFAULT 0;
ALTER TABLE site_usage ADD COLUMN lease bigint NOT NULL DEFAULT 0; -- the count up to which the slot may store; -1: the quota is used up
ALTER TABLE site_usage ADD COLUMN lease_quota bigint NOT NULL DEFAULT -1; -- the quota that was leased; -1: none
