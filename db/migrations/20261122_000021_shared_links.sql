-- oldest program: unchanged
-- Links that show the reports of a site to anybody who has their secret.
CREATE TABLE shared_links (
  id            @identity,
  site_id       bigint NOT NULL REFERENCES sites (id) ON DELETE CASCADE,
  name          text   NOT NULL,
  token_hash    @bytes   NOT NULL, -- SHA-256
  token_hint    text   NOT NULL, -- the last characters, by which the owner recognises it
  password_hash text,            -- argon2id; NULL without a password
  segment_id    bigint,          -- filters of every report; a segment in use is not deleted
  created_at    bigint NOT NULL,
  expires_at    bigint,          -- NULL: never
  last_used_at  bigint           -- to the minute
);
CREATE UNIQUE INDEX shared_links_token ON shared_links (token_hash); -- a link is opened
CREATE INDEX shared_links_site ON shared_links (site_id, id);        -- list of a site's links
