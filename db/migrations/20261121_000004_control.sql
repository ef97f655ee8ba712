-- The control plane: roles, members, API tokens, passwords that were forgotten, and sites that are being deleted.

ALTER TABLE users ADD COLUMN role text NOT NULL DEFAULT 'OWNER';

CREATE TABLE invitations (
  id         {{.Identity}},
  account_id bigint NOT NULL REFERENCES accounts (id) ON DELETE CASCADE,
  email      text   NOT NULL,
  role       text   NOT NULL,
  token_hash {{.Bytes}}   NOT NULL, -- SHA-256
  created_at bigint NOT NULL,
  expires_at bigint NOT NULL
);
CREATE UNIQUE INDEX invitations_token ON invitations (token_hash);
CREATE UNIQUE INDEX invitations_account ON invitations (account_id, email); -- one at a time
CREATE INDEX invitations_expiry ON invitations (expires_at);                -- housekeeping

CREATE TABLE password_resets (
  token_hash {{.Bytes}}   PRIMARY KEY, -- SHA-256
  user_id    bigint NOT NULL REFERENCES users (id) ON DELETE CASCADE,
  expires_at bigint NOT NULL
);
CREATE INDEX password_resets_user ON password_resets (user_id);      -- a new one replaces the old
CREATE INDEX password_resets_expiry ON password_resets (expires_at); -- housekeeping

CREATE TABLE api_tokens (
  id           {{.Identity}},
  account_id   bigint NOT NULL REFERENCES accounts (id) ON DELETE CASCADE,
  user_id      bigint NOT NULL REFERENCES users (id) ON DELETE CASCADE,
  name         text   NOT NULL,
  scopes       text   NOT NULL, -- JSON array
  token_hash   {{.Bytes}}   NOT NULL, -- SHA-256
  token_hint   text   NOT NULL, -- the last characters, for the owner to recognise it by
  created_at   bigint NOT NULL,
  last_used_at bigint           -- to the minute
);
CREATE UNIQUE INDEX api_tokens_hash ON api_tokens (token_hash); -- every request with a token
CREATE INDEX api_tokens_user ON api_tokens (user_id, id);       -- tokens of a user
CREATE INDEX api_tokens_account ON api_tokens (account_id);     -- deletion of an account

CREATE INDEX mails_account ON mails (account_id); -- deletion of an account

-- Sites that were deleted and may have rows left: the rest of a large one, or what was on its way.
CREATE TABLE deleted_sites (
  site_id    bigint PRIMARY KEY,
  deleted_at bigint NOT NULL
);
