-- oldest program: 20261127_000061_identity_providers
-- An older program would take the session of an account's provider for a session of the whole user.

-- The OpenID Connect provider of an account.
CREATE TABLE account_providers (
  account_id    bigint PRIMARY KEY REFERENCES accounts (id) ON DELETE CASCADE,
  issuer        text   NOT NULL,
  client_id     text   NOT NULL,
  client_secret @bytes  NOT NULL, -- encrypted with the application key
  domain        text   NOT NULL, -- of the addresses of its people
  domain_token  text   NOT NULL, -- what the domain's DNS record contains
  verified_at   bigint NOT NULL, -- when the record was found; 0: never
  default_role  text   NOT NULL, -- of new people
  role_claim    text   NOT NULL, -- the claim that sets roles; empty: none does
  roles         text   NOT NULL, -- JSON object of the claim's values and their roles
  changed_at    bigint NOT NULL
);
CREATE UNIQUE INDEX account_providers_domain ON account_providers (domain) WHERE verified_at > 0; -- sign-in

-- Whether members other than owners reach the account only through its provider.
ALTER TABLE accounts ADD COLUMN require_provider boolean NOT NULL DEFAULT false;

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

-- The account with the provider that started a session; 0: the installation's provider; NULL: no provider.
ALTER TABLE sessions ADD COLUMN provider_account bigint;
