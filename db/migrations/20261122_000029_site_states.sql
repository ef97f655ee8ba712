-- oldest program: 20261122_000029_site_states
-- What stops the hits of a site: its owner has paused or deleted it, or an operator has suspended its account.

ALTER TABLE sites ADD COLUMN paused_at  bigint NOT NULL DEFAULT 0; -- 0: not paused
ALTER TABLE sites ADD COLUMN deleted_at bigint NOT NULL DEFAULT 0; -- 0: not deleted; others can be restored for a week

DROP INDEX sites_account_domain;
CREATE UNIQUE INDEX sites_account_domain ON sites (account_id, domain) WHERE deleted_at = 0;
CREATE INDEX sites_deleted ON sites (deleted_at, id) WHERE deleted_at > 0; -- housekeeping

ALTER TABLE accounts ADD COLUMN suspended_at      bigint NOT NULL DEFAULT 0;  -- 0: not suspended
ALTER TABLE accounts ADD COLUMN suspension_reason text   NOT NULL DEFAULT ''; -- shown to the account's users
CREATE INDEX accounts_suspended ON accounts (id) WHERE suspended_at > 0; -- whose deliveries wait

-- The number under which the consumed challenges and tokens of a sitekey are stored; 0: its account's id. A transfer to
-- another account keeps it, so that a token counts once before and after.
ALTER TABLE sitekeys ADD COLUMN claim_space bigint NOT NULL DEFAULT 0;
