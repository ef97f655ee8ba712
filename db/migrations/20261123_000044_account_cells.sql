-- oldest program: 20261123_000044_account_cells
-- An account's usage and claims of the captcha are in a cell, too.
ALTER TABLE accounts ADD COLUMN cell bigint NOT NULL DEFAULT 1;
ALTER TABLE accounts ADD COLUMN cell_closed boolean NOT NULL DEFAULT false; -- its rows are being moved: no claim is stored
CREATE INDEX accounts_cell ON accounts (cell);                              -- the cell with the fewest accounts

-- The cells of claims under the numbers of no account: of the test sitekey, and of deleted accounts that had given away
-- a sitekey (sitekeys.claim_space).
CREATE TABLE claim_spaces (
  id   bigint PRIMARY KEY,
  cell bigint NOT NULL
) @without_rowid;
INSERT INTO claim_spaces (id, cell)
SELECT 0, 1
UNION
SELECT claim_space, 1 FROM sitekeys WHERE claim_space <> 0 AND claim_space NOT IN (SELECT id FROM accounts);

-- Moves of an account's captcha to another cell that are in progress.
CREATE TABLE account_moves (
  account_id  bigint PRIMARY KEY,
  from_cell   bigint NOT NULL,
  to_cell     bigint NOT NULL,
  state       text   NOT NULL, -- copying, closed or switched
  started_at  bigint NOT NULL,
  switched_at bigint NOT NULL DEFAULT 0
) @without_rowid;

-- Programs without this migration would keep all claims in the first cell.
INSERT INTO settings (name, value) SELECT 'oldest_program', '20261123_000045_captcha_in_cells' WHERE (SELECT count(*) FROM cells) > 1
ON CONFLICT (name) DO UPDATE SET value = excluded.value WHERE settings.value < excluded.value;
