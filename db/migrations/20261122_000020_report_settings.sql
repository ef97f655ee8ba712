-- oldest program: 20261122_000020_report_settings
-- What owners store for the reports of a site: its time zone, notes on days, saved filters and saved funnels.

ALTER TABLE sites ADD COLUMN time_zone text NOT NULL DEFAULT 'UTC'; -- IANA name

CREATE TABLE annotations (
  id         @identity,
  site_id    bigint  NOT NULL REFERENCES sites (id) ON DELETE CASCADE,
  day        integer NOT NULL, -- of the site's time zone
  text       text    NOT NULL,
  created_at bigint  NOT NULL
);
CREATE INDEX annotations_site ON annotations (site_id, day, id); -- pages of a site's annotations, newest day first

CREATE TABLE segments (
  id      @identity,
  site_id bigint NOT NULL REFERENCES sites (id) ON DELETE CASCADE,
  name    text   NOT NULL,
  filters text   NOT NULL -- JSON array of model.ReportFilter
);
CREATE UNIQUE INDEX segments_name ON segments (site_id, name); -- list of a site's segments

CREATE TABLE funnels (
  id      @identity,
  site_id bigint NOT NULL REFERENCES sites (id) ON DELETE CASCADE,
  name    text   NOT NULL,
  steps   text   NOT NULL -- JSON array of model.FunnelStep
);
CREATE UNIQUE INDEX funnels_name ON funnels (site_id, name); -- list of a site's funnels
