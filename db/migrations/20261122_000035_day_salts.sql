-- oldest program: 20261122_000035_day_salts
-- The days' salts of PostgreSQL, which no longer needs the right to create tables for each day. SQLite keeps salts in files.
-- @if postgres
CREATE UNLOGGED TABLE day_salts_0 (day integer PRIMARY KEY, salt bytea NOT NULL);
CREATE UNLOGGED TABLE day_salts_1 (LIKE day_salts_0 INCLUDING ALL);
CREATE UNLOGGED TABLE day_salts_2 (LIKE day_salts_0 INCLUDING ALL);
CREATE UNLOGGED TABLE day_salts_3 (LIKE day_salts_0 INCLUDING ALL);

-- Copy the salts of the tables that had a day's date in their names, and drop these tables.
DO $$
DECLARE
  old name;
  day integer;
BEGIN
  FOR old IN SELECT relname FROM pg_class
    WHERE relkind = 'r' AND relnamespace = current_schema()::regnamespace AND relname ~ '^day_salt_[0-9]{8}$' ORDER BY relname
  LOOP
    day := to_date(right(old, 8), 'YYYYMMDD') - date '1970-01-01';
    EXECUTE format('TRUNCATE day_salts_%s', day % 4);
    EXECUTE format('INSERT INTO day_salts_%s SELECT %s, salt FROM %I', day % 4, day, old);
    EXECUTE format('DROP TABLE %I', old);
  END LOOP;
END $$;
-- @end
