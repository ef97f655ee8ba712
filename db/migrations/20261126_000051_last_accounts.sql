-- oldest program: unchanged
-- The account that a user has last chosen in the console. 0: none. It may be an account that the user has left since.
ALTER TABLE users ADD COLUMN last_account bigint NOT NULL DEFAULT 0;
