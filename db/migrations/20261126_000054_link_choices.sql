-- oldest program: unchanged
-- What the readers of a shared link see, where its page may be framed, and its token for the owner, who needs it again.
ALTER TABLE shared_links ADD COLUMN hides_revenue boolean NOT NULL DEFAULT false;
ALTER TABLE shared_links ADD COLUMN sealed_token @bytes; -- encrypted with the application key; NULL in links made before this column
ALTER TABLE shared_links ADD COLUMN origins text NOT NULL DEFAULT ''; -- of pages that may frame the report, a line each
