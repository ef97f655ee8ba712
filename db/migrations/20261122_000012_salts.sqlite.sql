-- Salts of days are files of their own beside the database, so that destroying one leaves no copy in the database or its log.
-- Migrate has moved those of the last two days; the others are overdue. The table's pages are overwritten.
PRAGMA secure_delete = ON;
DROP TABLE day_salts;
PRAGMA secure_delete = OFF;
