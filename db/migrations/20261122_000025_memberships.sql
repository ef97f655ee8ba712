-- oldest program: 20261122_000025_memberships
-- A user belongs to one or more accounts, with a role in each. The oldest membership is the default account.
CREATE TABLE memberships (
  user_id    bigint NOT NULL REFERENCES users (id) ON DELETE CASCADE,
  account_id bigint NOT NULL REFERENCES accounts (id) ON DELETE CASCADE,
  role       text   NOT NULL, -- OWNER, MEMBER or VIEWER
  created_at bigint NOT NULL,
  PRIMARY KEY (user_id, account_id)
);
CREATE INDEX memberships_account ON memberships (account_id, user_id); -- members of an account

INSERT INTO memberships (user_id, account_id, role, created_at)
SELECT id, account_id, role, created_at FROM users;

DROP INDEX users_account;
ALTER TABLE users DROP COLUMN account_id;
ALTER TABLE users DROP COLUMN role;

-- A change of a user's address waits for its confirmation from the new one.
CREATE TABLE email_changes (
  token_hash @bytes   PRIMARY KEY, -- SHA-256
  user_id    bigint NOT NULL REFERENCES users (id) ON DELETE CASCADE,
  email      text   NOT NULL, -- the new address; it may belong to another user
  expires_at bigint NOT NULL
);
CREATE INDEX email_changes_user ON email_changes (user_id);      -- a new one replaces the old
CREATE INDEX email_changes_expiry ON email_changes (expires_at); -- housekeeping
