-- oldest program: 20261123_000043_usage_slots
-- Into how many slots the usage of a site is divided by visitor, so that several writers can store its hits at once. More than
-- one on PostgreSQL only.
ALTER TABLE sites ADD COLUMN usage_slots smallint NOT NULL DEFAULT 1;
