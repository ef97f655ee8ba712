-- The captcha: sitekeys, what an account's plan allows, what was used of it, and what may not be used again.

ALTER TABLE accounts ADD COLUMN captcha_plan text NOT NULL DEFAULT 'FREE';

CREATE TABLE sitekeys (
  id          {{.Identity}},
  account_id  bigint NOT NULL REFERENCES accounts (id) ON DELETE CASCADE,
  sitekey     text   NOT NULL,
  name        text   NOT NULL,
  domains     text   NOT NULL, -- JSON array of domains; [] for a key that works everywhere
  secret_hash {{.Bytes}}   NOT NULL, -- SHA-256
  secret_hint text   NOT NULL, -- the last characters, for the owner to recognise it by
  created_at  bigint NOT NULL
);
CREATE UNIQUE INDEX sitekeys_sitekey ON sitekeys (sitekey);         -- every challenge
CREATE UNIQUE INDEX sitekeys_secret_hash ON sitekeys (secret_hash); -- every call of the compatible endpoint
CREATE INDEX sitekeys_account ON sitekeys (account_id, id);         -- pages of an account's sitekeys

-- Verifications per account and UTC month. Its row is also the lock that makes the quota exact.
CREATE TABLE captcha_usage (
  account_id   bigint   NOT NULL,
  month        integer  NOT NULL,
  used         bigint   NOT NULL,
  reserve_from bigint   NOT NULL DEFAULT 0, -- the first verification after the quota
  over_quota   bigint   NOT NULL DEFAULT 0, -- the quota that reserve_from is about
  noticed      smallint NOT NULL DEFAULT 0, -- the highest threshold in percent with a row in quota_notices
  PRIMARY KEY (account_id, month)
{{if .Postgres -}}
) WITH (fillfactor = 20);
{{- else -}}
) WITHOUT ROWID;
{{- end}}

-- Challenges and tokens that are used up. The moment of issue stands before the random id, so that new rows come at the end
-- of an account's part of the key, and old ones are found without an index of their own. The test sitekey's account is 0.
CREATE TABLE captcha_spent (
  account_id bigint NOT NULL,
  issued_at  bigint NOT NULL,
  id         {{.Bytes}}   NOT NULL,
  PRIMARY KEY (account_id, issued_at, id)
{{if .Postgres -}}
) WITH (autovacuum_vacuum_scale_factor = 0.05, autovacuum_vacuum_insert_scale_factor = 0.5);
{{- else -}}
) WITHOUT ROWID;
{{- end}}

-- A quota that was used to a part, once per month and part.
CREATE TABLE quota_notices (
  account_id bigint  NOT NULL,
  site_id    bigint  NOT NULL DEFAULT 0, -- 0: the account's captcha
  product    text    NOT NULL,           -- captcha or analytics
  month      integer NOT NULL,
  threshold  integer NOT NULL,           -- percent
  created_at bigint  NOT NULL,
  mailed_at  bigint  NOT NULL DEFAULT 0, -- 0: the mails are still to be written
  PRIMARY KEY (account_id, site_id, product, month, threshold)
){{.WithoutRowID}};
CREATE INDEX quota_notices_new ON quota_notices (created_at) WHERE mailed_at = 0; -- the mailer
