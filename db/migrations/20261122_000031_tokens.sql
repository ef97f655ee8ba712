-- oldest program: 20261122_000031_tokens
-- API tokens can expire. Those that exist do not.

ALTER TABLE api_tokens ADD COLUMN expires_at bigint; -- NULL: never
ALTER TABLE api_tokens ADD COLUMN expiry_mails integer NOT NULL DEFAULT 0; -- mails about the expiry that were queued
CREATE INDEX api_tokens_expiry ON api_tokens (expires_at) WHERE expires_at IS NOT NULL; -- the mails
