-- oldest program: unchanged
-- A guest reads some sites of an account. Earlier programs do not read this table, and so find no
-- membership of a guest.
CREATE TABLE guests (
  user_id    bigint NOT NULL REFERENCES users (id) ON DELETE CASCADE,
  account_id bigint NOT NULL REFERENCES accounts (id) ON DELETE CASCADE,
  site_ids   text   NOT NULL, -- a JSON array; some may be deleted
  created_at bigint NOT NULL,
  PRIMARY KEY (user_id, account_id)
);
CREATE INDEX guests_account ON guests (account_id, user_id); -- guests of an account

-- NULL: the whole account. Earlier programs refuse the secret of an invitation with sites by its prefix.
ALTER TABLE invitations ADD COLUMN site_ids text;
