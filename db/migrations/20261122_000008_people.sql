-- Sign-ups that wait for their address to be verified, and the bounds of failed sign-ins and of one account.

-- A sign-up is a row for 24 hours before it is an account. It reserves nothing: the address may have several, and may get an
-- account in another way.
CREATE TABLE pending_sign_ups (
  id            {{.Identity}},
  email         text   NOT NULL,
  account_name  text   NOT NULL,
  password_hash text   NOT NULL,
  token_hash    {{.Bytes}}  NOT NULL, -- SHA-256 of the mailed secret
  created_at    bigint NOT NULL,
  expires_at    bigint NOT NULL
);
CREATE UNIQUE INDEX pending_sign_ups_token ON pending_sign_ups (token_hash);
CREATE INDEX pending_sign_ups_email ON pending_sign_ups (email, id);    -- the oldest of an address
CREATE INDEX pending_sign_ups_expiry ON pending_sign_ups (expires_at);  -- housekeeping

CREATE INDEX signin_failures_weight ON signin_failures (failures, last_at); -- those that a full table drops first

ALTER TABLE accounts ADD COLUMN site_limit integer;                             -- sites on the plan of new sites; NULL: the default
ALTER TABLE accounts ADD COLUMN mail_day integer NOT NULL DEFAULT 0;            -- the UTC day of the two counters
ALTER TABLE accounts ADD COLUMN invitations_mailed integer NOT NULL DEFAULT 0;
ALTER TABLE accounts ADD COLUMN notices_mailed integer NOT NULL DEFAULT 0;
