-- oldest program: 20261122_000030_old_secrets
-- Secrets that a rotation replaced and that remain valid for a while: at most one of each kind. All columns are NULL without one.

ALTER TABLE sites ADD COLUMN old_server_secret_hash @bytes; -- SHA-256
ALTER TABLE sites ADD COLUMN old_server_secret_hint text;
ALTER TABLE sites ADD COLUMN old_server_secret_until bigint;
ALTER TABLE sites ADD COLUMN old_webhook_secret @bytes; -- encrypted with the application key, like the current one
ALTER TABLE sites ADD COLUMN old_webhook_secret_until bigint;
CREATE UNIQUE INDEX sites_old_server_secret ON sites (old_server_secret_hash)
  WHERE old_server_secret_hash IS NOT NULL; -- every call of a server that still uses it
CREATE INDEX sites_old_server_secret_until ON sites (old_server_secret_until)
  WHERE old_server_secret_until IS NOT NULL; -- housekeeping
CREATE INDEX sites_old_webhook_secret_until ON sites (old_webhook_secret_until)
  WHERE old_webhook_secret_until IS NOT NULL; -- housekeeping

ALTER TABLE sitekeys ADD COLUMN old_secret_hash @bytes; -- SHA-256
ALTER TABLE sitekeys ADD COLUMN old_secret_hint text;
ALTER TABLE sitekeys ADD COLUMN old_secret_until bigint;
CREATE UNIQUE INDEX sitekeys_old_secret ON sitekeys (old_secret_hash)
  WHERE old_secret_hash IS NOT NULL; -- every call of the compatible endpoint that still uses it
CREATE INDEX sitekeys_old_secret_until ON sitekeys (old_secret_until) WHERE old_secret_until IS NOT NULL; -- housekeeping
