-- oldest program: unchanged

-- Whether addresses of the verified domain are verified where the provider does not say so.
ALTER TABLE account_providers ADD COLUMN trusts_emails boolean NOT NULL DEFAULT false;
