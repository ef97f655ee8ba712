-- oldest program: unchanged

-- Cells: groups of sites whose hits are in the tables of one schema. The tables of the first cell are in the schema of
-- this table; further ones exist on PostgreSQL only.
CREATE TABLE cells (
  id         bigint  PRIMARY KEY,
  schema     text    NOT NULL,              -- empty: that of this table
  open       boolean NOT NULL DEFAULT true, -- takes new sites
  created_at bigint  NOT NULL
) @without_rowid;
CREATE UNIQUE INDEX cells_schema ON cells (schema);
INSERT INTO cells (id, schema, created_at) VALUES (1, '', 0);

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

-- The cells of claims under the numbers of no account: of the test sitekey, and of deleted accounts that had given away
-- a sitekey (sitekeys.claim_space).
CREATE TABLE claim_spaces (
  id   bigint PRIMARY KEY,
  cell bigint NOT NULL
) @without_rowid;
INSERT INTO claim_spaces (id, cell) VALUES (0, 1);

-- Moves of an account's captcha to another cell that are in progress.
CREATE TABLE account_moves (
  account_id  bigint PRIMARY KEY,
  from_cell   bigint NOT NULL,
  to_cell     bigint NOT NULL,
  state       text   NOT NULL, -- copying, closed or switched
  started_at  bigint NOT NULL,
  switched_at bigint NOT NULL DEFAULT 0
) @without_rowid;
