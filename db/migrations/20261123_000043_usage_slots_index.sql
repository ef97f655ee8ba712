-- oldest program: unchanged
-- outside of a transaction
-- in each cell
-- It becomes the primary key in the next migration, which then holds the table's lock for milliseconds. SQLite cannot do that.
-- @if postgres
CREATE UNIQUE INDEX CONCURRENTLY IF NOT EXISTS site_usage_slots ON site_usage (site_id, month, slot);
-- @end
