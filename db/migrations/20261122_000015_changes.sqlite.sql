-- The last changes of sites and sitekeys, for other processes on this file: they read them several times a second and drop what
-- they keep in memory of those rows. PostgreSQL notifies its clients instead.
CREATE TABLE changes (
  seq     INTEGER PRIMARY KEY, -- without gaps: the newest row stays
  channel TEXT    NOT NULL,    -- tallygate_site or tallygate_sitekey
  id      INTEGER NOT NULL,
  source  INTEGER NOT NULL     -- random number of the process, which knows of its own changes already
);
