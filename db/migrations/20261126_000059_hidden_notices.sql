-- oldest program: unchanged
-- The counts at which a user has hidden the notices of a site's page.
CREATE TABLE hidden_notices (
  site_id    bigint NOT NULL REFERENCES sites (id) ON DELETE CASCADE,
  user_id    bigint NOT NULL REFERENCES users (id) ON DELETE CASCADE,
  rejections bigint NOT NULL,
  usage      bigint NOT NULL, -- percent of the quota
  hidden_at  bigint NOT NULL,
  PRIMARY KEY (site_id, user_id)
);
CREATE INDEX hidden_notices_user ON hidden_notices (user_id); -- deletion of a user
