-- oldest program: unchanged
-- in each cell
-- Coarse values of the browser that opened the visit, see model.Client: 5 characters such as DEcwd, then the hostname. Empty: none kept.
ALTER TABLE visits ADD COLUMN client text NOT NULL DEFAULT '';
