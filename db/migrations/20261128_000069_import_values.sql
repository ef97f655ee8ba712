-- oldest program: unchanged
-- The values of the message about a failed import, by which clients write it in their own language.
ALTER TABLE import_jobs ADD COLUMN error_values text NOT NULL DEFAULT ''; -- JSON; empty: none
