-- oldest program: unchanged
-- The captcha: sitekeys, what was used of an account's plan, and what may not be used again.

CREATE TABLE sitekeys (
  id               @identity,
  account_id       bigint NOT NULL REFERENCES accounts (id) ON DELETE CASCADE,
  sitekey          text   NOT NULL,
  name             text   NOT NULL,
  domains          text   NOT NULL, -- JSON array of domains; [] for a key that works everywhere
  secret_hash      @bytes NOT NULL, -- SHA-256
  secret_hint      text   NOT NULL, -- the last characters, for the owner to recognise it by
  created_at       bigint NOT NULL,

  -- The number under which consumed challenges and tokens are stored; 0: the account's id. A transfer to another account
  -- keeps it, so that a token counts once before and after.
  claim_space      bigint NOT NULL DEFAULT 0,

  -- The secret that a rotation replaced and that remains valid for a while. The columns are NULL without one.
  old_secret_hash  @bytes, -- SHA-256
  old_secret_hint  text,
  old_secret_until bigint,

  policy           text   NOT NULL DEFAULT '{}', -- how much work it asks for, as JSON; {}: the installation's policy
  attack           text   NOT NULL DEFAULT '{}'  -- the last one, as JSON; {}: none
);
CREATE UNIQUE INDEX sitekeys_sitekey ON sitekeys (sitekey);         -- every challenge
CREATE UNIQUE INDEX sitekeys_secret_hash ON sitekeys (secret_hash); -- every call of the compatible endpoint
CREATE INDEX sitekeys_account ON sitekeys (account_id, id);         -- pages of an account's sitekeys
CREATE UNIQUE INDEX sitekeys_old_secret ON sitekeys (old_secret_hash)
  WHERE old_secret_hash IS NOT NULL; -- every call of the compatible endpoint that still uses it
CREATE INDEX sitekeys_old_secret_until ON sitekeys (old_secret_until) WHERE old_secret_until IS NOT NULL; -- housekeeping

-- Verifications per account and UTC month. Its row is also the lock that makes the quota exact.
CREATE TABLE captcha_usage (
  account_id   bigint   NOT NULL,
  month        integer  NOT NULL,
  used         bigint   NOT NULL,
  reserve_from bigint   NOT NULL DEFAULT 0, -- the first verification after the quota
  over_quota   bigint   NOT NULL DEFAULT 0, -- the quota that reserve_from is about
  noticed      smallint NOT NULL DEFAULT 0, -- the highest threshold in percent with a row in quota_notices
  PRIMARY KEY (account_id, month)
-- @if postgres
) WITH (fillfactor = 20);
-- @else
) WITHOUT ROWID;
-- @end
CREATE INDEX captcha_usage_month ON captcha_usage (month, account_id);

-- Challenges and tokens that are used up. The time of issue stands before the random id, so that new rows come at the end
-- of an account's part of the key, and old ones are found without an index of their own. The test sitekey's account is 0.
CREATE TABLE captcha_spent (
  account_id bigint NOT NULL,
  issued_at  bigint NOT NULL,
  id         @bytes NOT NULL,
  PRIMARY KEY (account_id, issued_at, id)
-- @if postgres
) WITH (autovacuum_vacuum_scale_factor = 0.05, autovacuum_vacuum_insert_scale_factor = 0.5);
-- @else
) WITHOUT ROWID;
-- @end

-- Calls of a captcha by day.
CREATE TABLE captcha_counts (
  sitekey_id bigint  NOT NULL,
  day        integer NOT NULL,
  name       text    NOT NULL, -- what is counted, see model.CaptchaChallenge
  count      bigint  NOT NULL,
  PRIMARY KEY (sitekey_id, day, name)
-- @if postgres
) WITH (fillfactor = 50);
-- @else
) WITHOUT ROWID;
-- @end
CREATE INDEX captcha_counts_day ON captcha_counts (day);
