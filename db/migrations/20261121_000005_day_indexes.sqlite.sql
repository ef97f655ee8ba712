-- What names visitors and page views is random. In an index over all days, each hit would change a page anywhere in it, which has to
-- be read first; in one that begins with the day, it is one of today's pages. 86400000000 microseconds are a day.

DROP INDEX visits_visitor;
CREATE INDEX visits_visitor ON visits (site_id, started_at / 86400000000, visitor); -- the visitor's current visit, on every page view

DROP INDEX pageviews_id;
CREATE INDEX pageviews_id ON pageviews (site_id, at / 86400000000, id, at); -- engagement finds its page view, the newest with that id
