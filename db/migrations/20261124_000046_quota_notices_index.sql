-- oldest program: unchanged
-- outside of a transaction
-- It becomes the primary key in the next migration, which then holds the table's lock for milliseconds. SQLite cannot do that.
-- @if postgres
CREATE UNIQUE INDEX CONCURRENTLY IF NOT EXISTS quota_notices_quotas ON quota_notices (account_id, site_id, product, month, threshold, quota);
-- @end
