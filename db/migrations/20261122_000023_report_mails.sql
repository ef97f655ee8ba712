-- oldest program: unchanged
-- The mails about a site that a user gets: summaries of weeks and months, and notices of more or fewer visitors than usual.
CREATE TABLE report_mails (
  site_id   bigint  NOT NULL REFERENCES sites (id) ON DELETE CASCADE,
  user_id   bigint  NOT NULL REFERENCES users (id) ON DELETE CASCADE,
  kind      text    NOT NULL, -- weekly, monthly, spike or drop
  threshold bigint  NOT NULL, -- visitors, of spike and drop
  day       integer NOT NULL, -- of the site's time zone, on which it is due; of a spike the day of the last check
  due_at    bigint  NOT NULL,
  PRIMARY KEY (site_id, user_id, kind)
);
CREATE INDEX report_mails_due ON report_mails (due_at);  -- the planner
CREATE INDEX report_mails_user ON report_mails (user_id); -- deletion of a user
