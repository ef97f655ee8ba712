-- oldest program: unchanged
-- How users sign in: with passwords, second factors, passkeys, or the account of a provider.

CREATE TABLE sessions (
  id_hash          @bytes PRIMARY KEY,
  user_id          bigint NOT NULL REFERENCES users (id) ON DELETE CASCADE,
  created_at       bigint NOT NULL,
  last_seen_at     bigint NOT NULL,
  expires_at       bigint NOT NULL,
  provider_account bigint -- the account with the provider that started it; 0: the installation's provider; NULL: no provider
);
CREATE INDEX sessions_user ON sessions (user_id);      -- sessions of a user
CREATE INDEX sessions_expiry ON sessions (expires_at); -- housekeeping
CREATE INDEX sessions_provider ON sessions (provider_account) WHERE provider_account IS NOT NULL; -- a change of the provider

-- Failed sign-ins by keyed hash of what was tried (an e-mail address, a network), so that nothing personal is kept.
CREATE TABLE signin_failures (
  key      @bytes  PRIMARY KEY,
  failures integer NOT NULL,
  last_at  bigint  NOT NULL
);
CREATE INDEX signin_failures_age ON signin_failures (last_at);              -- housekeeping
CREATE INDEX signin_failures_weight ON signin_failures (failures, last_at); -- those that a full table drops first

CREATE TABLE password_resets (
  token_hash @bytes PRIMARY KEY, -- SHA-256
  user_id    bigint NOT NULL REFERENCES users (id) ON DELETE CASCADE,
  expires_at bigint NOT NULL
);
CREATE INDEX password_resets_user ON password_resets (user_id);      -- a new one replaces the old
CREATE INDEX password_resets_expiry ON password_resets (expires_at); -- housekeeping

-- The secret of an authenticator app.
CREATE TABLE totp_secrets (
  user_id    bigint  NOT NULL REFERENCES users (id) ON DELETE CASCADE,
  confirmed  boolean NOT NULL, -- false: waits for its first code
  secret     @bytes  NOT NULL, -- encrypted with the application key
  last_step  bigint  NOT NULL, -- the newest 30 seconds whose code was used; 0: none
  created_at bigint  NOT NULL,
  PRIMARY KEY (user_id, confirmed)
);

-- Codes that replace the authenticator app once each.
CREATE TABLE recovery_codes (
  user_id   bigint NOT NULL REFERENCES users (id) ON DELETE CASCADE,
  code_hash @bytes NOT NULL, -- SHA-256 of user and code
  PRIMARY KEY (user_id, code_hash)
);

CREATE TABLE passkeys (
  id            @identity,
  user_id       bigint  NOT NULL REFERENCES users (id) ON DELETE CASCADE,
  credential_id @bytes  NOT NULL,
  public_key    @bytes  NOT NULL, -- COSE
  sign_count    bigint  NOT NULL, -- at the last use; 0: the authenticator does not count
  flags         integer NOT NULL, -- of the authenticator data at the last use
  transports    text    NOT NULL, -- separated by spaces
  name          text    NOT NULL,
  created_at    bigint  NOT NULL,
  last_used_at  bigint -- NULL: never
);
CREATE UNIQUE INDEX passkeys_credential ON passkeys (credential_id); -- sign-in
CREATE INDEX passkeys_user ON passkeys (user_id, id);                -- passkeys of a user

-- Challenges that a passkey has answered. Challenges are signed and not stored before.
CREATE TABLE used_challenges (
  challenge_hash @bytes PRIMARY KEY, -- SHA-256
  expires_at     bigint NOT NULL
);
CREATE INDEX used_challenges_expiry ON used_challenges (expires_at); -- housekeeping

-- The OpenID Connect provider of an account.
CREATE TABLE account_providers (
  account_id    bigint  PRIMARY KEY REFERENCES accounts (id) ON DELETE CASCADE,
  issuer        text    NOT NULL,
  client_id     text    NOT NULL,
  client_secret @bytes  NOT NULL, -- encrypted with the application key
  domain        text    NOT NULL, -- of the addresses of its people
  domain_token  text    NOT NULL, -- what the domain's DNS record contains
  verified_at   bigint  NOT NULL, -- when the record was found; 0: never
  default_role  text    NOT NULL, -- of new people
  role_claim    text    NOT NULL, -- the claim that sets roles; empty: none does
  roles         text    NOT NULL, -- JSON object of the claim's values and their roles
  changed_at    bigint  NOT NULL,
  checked_at    bigint  NOT NULL DEFAULT 0,    -- when the record of a verified domain was last looked up; 0: an operator has confirmed it
  missing_since bigint  NOT NULL DEFAULT 0,    -- since when lookups do not find the record; 0: the last one did
  trusts_emails boolean NOT NULL DEFAULT false -- addresses of the verified domain are verified where the provider does not say so
);
CREATE UNIQUE INDEX account_providers_domain ON account_providers (domain) WHERE verified_at > 0; -- sign-in

-- The people whom providers know.
CREATE TABLE identities (
  account_id bigint NOT NULL, -- the account with the provider; 0: the installation's provider
  issuer     text   NOT NULL,
  subject    text   NOT NULL,
  user_id    bigint NOT NULL REFERENCES users (id) ON DELETE CASCADE,
  created_at bigint NOT NULL,
  PRIMARY KEY (account_id, issuer, subject)
);
CREATE INDEX identities_user ON identities (user_id); -- deletion of a user
