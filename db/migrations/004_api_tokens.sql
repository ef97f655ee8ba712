-- oldest program: unchanged
-- Tokens of programs, and the calls that programs repeat.

CREATE TABLE api_tokens (
  id           @identity,
  account_id   bigint  NOT NULL REFERENCES accounts (id) ON DELETE CASCADE,
  user_id      bigint  NOT NULL REFERENCES users (id) ON DELETE CASCADE,
  name         text    NOT NULL,
  scopes       text    NOT NULL, -- JSON array
  token_hash   @bytes  NOT NULL, -- SHA-256
  token_hint   text    NOT NULL, -- the last characters, for the owner to recognise it by
  created_at   bigint  NOT NULL,
  last_used_at bigint,                     -- to the minute
  expires_at   bigint,                     -- NULL: never
  expiry_mails integer NOT NULL DEFAULT 0, -- mails about the expiry that were queued
  site_ids     text                        -- JSON array; NULL: all sites of the account
);
CREATE UNIQUE INDEX api_tokens_hash ON api_tokens (token_hash); -- every request with a token
CREATE INDEX api_tokens_user ON api_tokens (user_id, id);       -- tokens of a user
CREATE INDEX api_tokens_account ON api_tokens (account_id);     -- deletion of an account
CREATE INDEX api_tokens_expiry ON api_tokens (expires_at) WHERE expires_at IS NOT NULL; -- the mails

-- Calls of mutations with an idempotency key, of the last 24 hours. No foreign keys, for the reason that audit_log has none.
-- Deleting an account deletes its rows.
CREATE TABLE idempotency_keys (
  account_id  bigint NOT NULL, -- in which the caller needed the permission
  user_id     bigint NOT NULL,
  token_id    bigint NOT NULL, -- 0: a session
  key_hash    @bytes NOT NULL, -- HMAC-SHA256, see model.NodeIDs
  input_hash  @bytes NOT NULL, -- likewise, of the mutation and its input
  object_kind text   NOT NULL, -- a type of the GraphQL schema
  object_id   bigint NOT NULL,
  object_site bigint NOT NULL, -- of a delivery; otherwise 0
  created_at  bigint NOT NULL,
  PRIMARY KEY (account_id, user_id, token_id, key_hash)
);
CREATE INDEX idempotency_keys_created ON idempotency_keys (created_at); -- deletion of old rows
