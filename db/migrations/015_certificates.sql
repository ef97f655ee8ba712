-- oldest program: unchanged

-- Files of the ACME library: the key of the account, and each host's certificate with its private key.
CREATE TABLE certificate_files (
  name  text   NOT NULL PRIMARY KEY, -- the address of the authority's directory, a space, and the library's name
  value @bytes NOT NULL              -- encrypted with the application key
);

-- The state of each host's certificate.
CREATE TABLE certificate_hosts (
  host       text   NOT NULL PRIMARY KEY,
  issued_at  bigint NOT NULL, -- 0: none was obtained yet
  expires_at bigint NOT NULL,
  seen_at    bigint NOT NULL  -- when a process was last configured with this host
);
