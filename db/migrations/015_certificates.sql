-- oldest program: unchanged

-- The key of the account with the authority, and each host's certificate with its private key, in PEM form.
CREATE TABLE certificate_files (
  name  text   NOT NULL PRIMARY KEY, -- the address of the authority's directory, a space, and the host or "account"
  value @bytes NOT NULL              -- encrypted with the application key
);

-- The state of each host's certificate.
CREATE TABLE certificate_hosts (
  host       text   NOT NULL PRIMARY KEY,
  issued_at  bigint NOT NULL, -- 0: none was obtained yet
  expires_at bigint NOT NULL,
  seen_at    bigint NOT NULL  -- when a process was last configured with this host
);
