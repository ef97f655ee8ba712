-- oldest program: unchanged
-- The period and the comparison that a user has last chosen for the report of a site.
CREATE TABLE report_views (
  site_id           bigint  NOT NULL REFERENCES sites (id) ON DELETE CASCADE,
  user_id           bigint  NOT NULL REFERENCES users (id) ON DELETE CASCADE,
  preset            text    NOT NULL,
  compare           text    NOT NULL, -- kind of the comparison; empty: none
  match_day_of_week boolean NOT NULL,
  PRIMARY KEY (site_id, user_id)
);
CREATE INDEX report_views_user ON report_views (user_id); -- deletion of a user
