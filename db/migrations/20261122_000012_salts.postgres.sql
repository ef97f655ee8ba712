-- Salts of days are unlogged tables of their own, day_salt_YYYYMMDD, so that destroying one leaves no copy in the write-ahead log.
-- Those of the last two days move; the older ones are overdue.
DO $$
DECLARE
  old record;
BEGIN
  FOR old IN SELECT to_char(date '1970-01-01' + day, 'YYYYMMDD') AS day, salt FROM day_salts ORDER BY day_salts.day DESC LIMIT 2 LOOP
    EXECUTE format('CREATE UNLOGGED TABLE day_salt_%s (one boolean PRIMARY KEY DEFAULT true CHECK (one), salt bytea NOT NULL)', old.day);
    EXECUTE format('INSERT INTO day_salt_%s (salt) VALUES ($1)', old.day) USING old.salt;
  END LOOP;
END $$;
DROP TABLE day_salts;
