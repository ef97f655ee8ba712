-- oldest program: 20261122_000032_deliveries
-- The address of a delivery's last attempt; empty before the first one.
ALTER TABLE deliveries ADD COLUMN url text NOT NULL DEFAULT '';
