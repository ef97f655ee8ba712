-- oldest program: 20261123_000037_token_sites
-- An API token can be restricted to sites: a JSON array of their ids. Those that exist are not.

ALTER TABLE api_tokens ADD COLUMN site_ids text; -- NULL: all sites of the account
