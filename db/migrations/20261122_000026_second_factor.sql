-- oldest program: 20261122_000026_second_factor
-- An older program would sign users in without their second factors.

-- Second factors of users: codes of an authenticator app, recovery codes, and passkeys.

-- Whether an account's members need a second factor, and whether a user has one. users.second_factor changes in the
-- transaction that adds the first one or removes the last one.
ALTER TABLE accounts ADD COLUMN require_second_factor boolean NOT NULL DEFAULT false;
ALTER TABLE users ADD COLUMN second_factor boolean NOT NULL DEFAULT false;

CREATE TABLE totp_secrets (
  user_id    bigint  NOT NULL REFERENCES users (id) ON DELETE CASCADE,
  confirmed  boolean NOT NULL, -- false: waits for its first code
  secret     @bytes   NOT NULL, -- encrypted with the application key
  last_step  bigint  NOT NULL, -- the newest 30 seconds whose code was used; 0: none
  created_at bigint  NOT NULL,
  PRIMARY KEY (user_id, confirmed)
);

CREATE TABLE recovery_codes (
  user_id   bigint NOT NULL REFERENCES users (id) ON DELETE CASCADE,
  code_hash @bytes  NOT NULL, -- SHA-256 of user and code
  PRIMARY KEY (user_id, code_hash)
);

CREATE TABLE passkeys (
  id            @identity,
  user_id       bigint  NOT NULL REFERENCES users (id) ON DELETE CASCADE,
  credential_id @bytes   NOT NULL,
  public_key    @bytes   NOT NULL, -- COSE
  sign_count    bigint  NOT NULL, -- at the last use; 0: the authenticator does not count
  flags         integer NOT NULL, -- of the authenticator data at the last use
  transports    text    NOT NULL, -- separated by spaces
  name          text    NOT NULL,
  created_at    bigint  NOT NULL,
  last_used_at  bigint            -- NULL: never
);
CREATE UNIQUE INDEX passkeys_credential ON passkeys (credential_id); -- sign-in
CREATE INDEX passkeys_user ON passkeys (user_id, id);                -- passkeys of a user

-- Challenges that a passkey has answered. Challenges are signed and not stored before.
CREATE TABLE used_challenges (
  challenge_hash @bytes  PRIMARY KEY, -- SHA-256
  expires_at     bigint NOT NULL
);
CREATE INDEX used_challenges_expiry ON used_challenges (expires_at); -- housekeeping
