-- A hit reads and writes its visitor's newest visits and nothing else of what is stored. So a visit
-- carries what the rules need: which visit of its visitor's day it is, since a visitor has a bounded
-- number of them; the latest automatic page views, which a manual one may repeat; and the page views that
-- events have named but that have not arrived.

ALTER TABLE visits ADD COLUMN n smallint NOT NULL DEFAULT 1;
ALTER TABLE visits ADD COLUMN recent {{.Bytes}};
ALTER TABLE visits ADD COLUMN awaited {{.Bytes}};
