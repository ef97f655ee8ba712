-- oldest program: unchanged
-- outside of a transaction
-- Deliveries by kind, event and state, and those that wait for an address.
CREATE INDEX @concurrently IF NOT EXISTS deliveries_kind ON deliveries (site_id, kind, state, id);   -- an owner's filters
CREATE INDEX @concurrently IF NOT EXISTS deliveries_event ON deliveries (site_id, event, state, id); -- likewise; the parts of a day
CREATE INDEX @concurrently IF NOT EXISTS deliveries_waiting ON deliveries (site_id, kind, created_at, id) WHERE state = 'waiting';
