-- A hit reads and writes its visitor's newest visit and nothing else of what is stored. So the visit
-- carries what the rules need: which visit of its visitor's day it is, since a visitor has a bounded
-- number of them, and the latest automatic page views, which a manual one may repeat.

ALTER TABLE visits ADD COLUMN n smallint NOT NULL DEFAULT 1;
ALTER TABLE visits ADD COLUMN recent bytea;
