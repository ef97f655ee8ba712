-- outside of a transaction
-- The months of sites with a mark that has no notice yet, and nothing else.
CREATE INDEX{{.Concurrently}} IF NOT EXISTS site_usage_marks ON site_usage (site_id, month) WHERE reached > noted;
