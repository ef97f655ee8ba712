-- oldest program: unchanged
-- outside of a transaction
-- The months of sites with a mark that has no notice yet, and nothing else.
CREATE INDEX @concurrently IF NOT EXISTS site_usage_marks ON site_usage (site_id, month) WHERE reached > noted;
