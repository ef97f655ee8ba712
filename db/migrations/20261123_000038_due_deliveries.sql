-- oldest program: unchanged
-- outside of a transaction
-- Pending deliveries by the time of their next attempt, so that the sweeper reads what is due and nothing else.
CREATE INDEX @concurrently IF NOT EXISTS deliveries_next ON deliveries (next_attempt_at) WHERE state = 'pending';
