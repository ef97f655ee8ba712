-- oldest program: 20261123_000043_usage_slots_key
-- in each cell
ALTER TABLE site_usage DROP CONSTRAINT site_usage_pkey;
ALTER TABLE site_usage ADD CONSTRAINT site_usage_pkey PRIMARY KEY USING INDEX site_usage_slots;
