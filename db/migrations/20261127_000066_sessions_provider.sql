-- oldest program: unchanged
-- outside of a transaction
-- Sessions by the account that has their provider, so that a change of the provider reads these alone.
CREATE INDEX @concurrently IF NOT EXISTS sessions_provider ON sessions (provider_account) WHERE provider_account IS NOT NULL;
