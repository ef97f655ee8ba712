-- What names visitors and page views is random. In an index over a month, each hit would change a page anywhere in it, which has to
-- be read first and, once after each checkpoint, goes into the log as a whole; in one that begins with the day, it is one of
-- today's pages. 86400000000 microseconds are a day.

DROP INDEX visits_visitor;
CREATE INDEX visits_visitor ON visits (((started_at / 86400000000)::integer), visitor, id); -- the visitor's current visit, on every page view

DROP INDEX pageviews_id;
CREATE INDEX pageviews_id ON pageviews (((at / 86400000000)::integer), id, at); -- engagement finds its page view, the newest with that id
