-- oldest program: 20261123_000039_quota_marks
-- The writer marks the thresholds that a month has reached, and a job turns the marks into notices. So neither the
-- time of the job nor that of a hit depends on how many other sites there are.
ALTER TABLE site_usage ADD COLUMN reached smallint NOT NULL DEFAULT 0; -- highest threshold of the quota reached, in percent
ALTER TABLE site_usage ADD COLUMN noted smallint NOT NULL DEFAULT 0; -- the threshold up to which quota_notices has the notices
