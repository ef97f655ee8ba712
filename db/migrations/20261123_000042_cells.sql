-- oldest program: 20261123_000042_cells
-- Cells: groups of sites whose hits are in the tables of one schema. The tables of the first cell are in the schema of
-- this table; further ones exist on PostgreSQL only.
CREATE TABLE cells (
  id         bigint  PRIMARY KEY,
  schema     text    NOT NULL, -- empty: that of this table
  open       boolean NOT NULL DEFAULT true, -- takes new sites
  created_at bigint  NOT NULL
) @without_rowid;
CREATE UNIQUE INDEX cells_schema ON cells (schema);
INSERT INTO cells (id, schema, created_at) VALUES (1, '', 0);

ALTER TABLE sites ADD COLUMN cell bigint NOT NULL DEFAULT 1;
ALTER TABLE sites ADD COLUMN cell_closed boolean NOT NULL DEFAULT false; -- its rows are being moved: no hit is stored
CREATE INDEX sites_cell ON sites (cell);                                 -- the cell with the fewest sites

-- Moves of a site to another cell that are in progress.
CREATE TABLE site_moves (
  site_id     bigint  PRIMARY KEY,
  from_cell   bigint  NOT NULL,
  to_cell     bigint  NOT NULL,
  state       text    NOT NULL,           -- copying, closed or switched
  copied      integer NOT NULL DEFAULT 0, -- how many tables are copied in this state
  next_day    integer NOT NULL DEFAULT 0, -- of the table in progress
  last_day    integer NOT NULL,           -- up to which hits are copied before the site is closed
  started_at  bigint  NOT NULL,
  switched_at bigint  NOT NULL DEFAULT 0
) @without_rowid;
