-- oldest program: unchanged
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
