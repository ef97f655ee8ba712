-- oldest program: 20261124_000046_quota_notices
-- A threshold belongs to a quota: after a change of the plan, owners are notified at 80 % and 100 % of the new one as well.
-- 0: noted by a program of an earlier version.
ALTER TABLE quota_notices ADD COLUMN quota bigint NOT NULL DEFAULT 0;
