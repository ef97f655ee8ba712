-- oldest program: unchanged

-- Files of the ACME library: certificates, private keys, accounts and challenges in progress.
CREATE TABLE certificate_files (
  name        text   NOT NULL PRIMARY KEY, -- a path such as certificates/AUTHORITY/HOST/HOST.key
  value       @bytes NOT NULL,             -- encrypted with the application key
  modified_at bigint NOT NULL
);

-- Only the holder of a lock orders a certificate.
CREATE TABLE certificate_locks (
  name       text   NOT NULL PRIMARY KEY,
  holder     text   NOT NULL,
  expires_at bigint NOT NULL -- by the database's clock
);

-- The state of each host's certificate.
CREATE TABLE certificate_hosts (
  host       text    NOT NULL PRIMARY KEY,
  issued_at  bigint  NOT NULL DEFAULT 0,
  expires_at bigint  NOT NULL DEFAULT 0,  -- 0: none was obtained yet
  failed_at  bigint  NOT NULL DEFAULT 0,  -- of the last order that failed; kept after a success
  failures   integer NOT NULL DEFAULT 0,  -- since the last success
  failure    text    NOT NULL DEFAULT '', -- class of the last failure; '' after a success
  seen_at    bigint  NOT NULL             -- when a process was last configured with this host
);
