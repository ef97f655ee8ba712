-- oldest program: unchanged

-- When the DNS record of a verified domain was last looked up; 0: an operator has confirmed the domain.
ALTER TABLE account_providers ADD COLUMN checked_at bigint NOT NULL DEFAULT 0;

-- Since when lookups do not find the record; 0: the last one did.
ALTER TABLE account_providers ADD COLUMN missing_since bigint NOT NULL DEFAULT 0;

-- Which domains an operator has confirmed was not stored. The next lookup decides, and 7 days follow it.
UPDATE account_providers SET checked_at = verified_at WHERE verified_at > 0;
