-- oldest program: 20261124_000046_quota_notices_key
ALTER TABLE quota_notices DROP CONSTRAINT quota_notices_pkey;
ALTER TABLE quota_notices ADD CONSTRAINT quota_notices_pkey PRIMARY KEY USING INDEX quota_notices_quotas;
