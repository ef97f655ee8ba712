-- oldest program: unchanged
-- Indexes by age, so that housekeeping finds what has expired without asking for each site.
CREATE INDEX rejections_day ON rejections (day);
CREATE INDEX site_usage_days_day ON site_usage_days (day);
CREATE INDEX captcha_counts_day ON captcha_counts (day);
CREATE INDEX unknown_events_day ON unknown_events (day);
CREATE INDEX captcha_usage_month ON captcha_usage (month, account_id);
CREATE INDEX deliveries_finished ON deliveries (id) WHERE state <> 'pending';
CREATE INDEX failure_notices_day ON failure_notices (day);
CREATE INDEX webhook_notices_day ON webhook_notices (day);
CREATE INDEX report_days_day ON report_days (day);
CREATE INDEX report_segments_day ON report_segments (first_day);
CREATE INDEX audit_log_id ON audit_log (id);
