-- oldest program: unchanged
-- What the import jobs of an account use of the workers, which accounts share.
ALTER TABLE import_jobs ADD COLUMN bytes_read bigint NOT NULL DEFAULT 0; -- uncompressed, for the preview
ALTER TABLE import_jobs ADD COLUMN ran        bigint NOT NULL DEFAULT 0; -- microseconds, of all steps
