-- oldest program: unchanged
-- Accounts and their users.

CREATE TABLE accounts (
  id                    @identity,
  name                  text    NOT NULL,
  created_at            bigint  NOT NULL,
  captcha_plan          text    NOT NULL DEFAULT 'FREE',
  site_limit            integer,                    -- sites on the plan of new sites; NULL: the default
  mail_day              integer NOT NULL DEFAULT 0, -- the UTC day of the two counters
  invitations_mailed    integer NOT NULL DEFAULT 0,
  notices_mailed        integer NOT NULL DEFAULT 0,
  require_second_factor boolean NOT NULL DEFAULT false, -- of its members
  suspended_at          bigint  NOT NULL DEFAULT 0,     -- 0: not suspended
  suspension_reason     text    NOT NULL DEFAULT '',    -- shown to the account's users
  cell                  bigint  NOT NULL DEFAULT 1,     -- of its captcha's usage and claims
  cell_closed           boolean NOT NULL DEFAULT false, -- its rows are being moved: no claim is stored
  require_provider      boolean NOT NULL DEFAULT false  -- members other than owners reach the account only through its provider
);
CREATE INDEX accounts_suspended ON accounts (id) WHERE suspended_at > 0; -- whose deliveries wait
CREATE INDEX accounts_cell ON accounts (cell); -- the cell with the fewest accounts

CREATE TABLE users (
  id                  @identity,
  email               text    NOT NULL,
  password_hash       text    NOT NULL,
  operator            boolean NOT NULL DEFAULT false,
  created_at          bigint  NOT NULL,

  -- How often the password was changed. What a browser remembers of a sign-in counts for one generation.
  password_generation integer NOT NULL DEFAULT 0,

  second_factor       boolean NOT NULL DEFAULT false, -- changes in the transaction that adds the first one or removes the last one
  language            text    NOT NULL DEFAULT 'en',  -- en or de
  last_account        bigint  NOT NULL DEFAULT 0      -- last chosen in the console; 0: none; the user may have left it since
);
CREATE UNIQUE INDEX users_email ON users (email);

-- A user belongs to one or more accounts, with a role in each. The oldest membership is the default account.
CREATE TABLE memberships (
  user_id    bigint NOT NULL REFERENCES users (id) ON DELETE CASCADE,
  account_id bigint NOT NULL REFERENCES accounts (id) ON DELETE CASCADE,
  role       text   NOT NULL, -- OWNER, MEMBER or VIEWER
  created_at bigint NOT NULL,
  PRIMARY KEY (user_id, account_id)
);
CREATE INDEX memberships_account ON memberships (account_id, user_id); -- members of an account

-- A guest reads some sites of an account. A guest has no membership, so that what asks for a membership refuses guests.
CREATE TABLE guests (
  user_id    bigint NOT NULL REFERENCES users (id) ON DELETE CASCADE,
  account_id bigint NOT NULL REFERENCES accounts (id) ON DELETE CASCADE,
  site_ids   text   NOT NULL, -- a JSON array; some may be deleted
  created_at bigint NOT NULL,
  PRIMARY KEY (user_id, account_id)
);
CREATE INDEX guests_account ON guests (account_id, user_id); -- guests of an account

CREATE TABLE invitations (
  id         @identity,
  account_id bigint NOT NULL REFERENCES accounts (id) ON DELETE CASCADE,
  email      text   NOT NULL,
  role       text   NOT NULL,
  token_hash @bytes NOT NULL, -- SHA-256
  created_at bigint NOT NULL,
  expires_at bigint NOT NULL,
  invited_by bigint NOT NULL DEFAULT 0, -- the user; 0: the command line
  site_ids   text                       -- NULL: the whole account; otherwise of a guest, as guests.site_ids
);
CREATE UNIQUE INDEX invitations_token ON invitations (token_hash);
CREATE UNIQUE INDEX invitations_account ON invitations (account_id, email); -- one at a time
CREATE INDEX invitations_expiry ON invitations (expires_at);                -- housekeeping

-- A sign-up is a row for 24 hours, until its address is verified, before it is an account. It reserves nothing: the address
-- may have several, and may get an account in another way.
CREATE TABLE pending_sign_ups (
  id            @identity,
  email         text   NOT NULL,
  account_name  text   NOT NULL,
  password_hash text   NOT NULL,
  token_hash    @bytes NOT NULL, -- SHA-256 of the mailed secret
  created_at    bigint NOT NULL,
  expires_at    bigint NOT NULL
);
CREATE UNIQUE INDEX pending_sign_ups_token ON pending_sign_ups (token_hash);
CREATE INDEX pending_sign_ups_email ON pending_sign_ups (email, id);   -- the oldest of an address
CREATE INDEX pending_sign_ups_expiry ON pending_sign_ups (expires_at); -- housekeeping

-- A change of a user's address waits for its confirmation from the new one.
CREATE TABLE email_changes (
  token_hash @bytes PRIMARY KEY, -- SHA-256
  user_id    bigint NOT NULL REFERENCES users (id) ON DELETE CASCADE,
  email      text   NOT NULL, -- the new address; it may belong to another user
  expires_at bigint NOT NULL
);
CREATE INDEX email_changes_user ON email_changes (user_id);      -- a new one replaces the old
CREATE INDEX email_changes_expiry ON email_changes (expires_at); -- housekeeping
