-- oldest program: unchanged
-- What a site's visits keep of browsers, which hits it leaves out, and when a group of visitors is too small to be shown. Lists have
-- a value in each line.
ALTER TABLE sites ADD COLUMN visit_details text NOT NULL DEFAULT '';
ALTER TABLE sites ADD COLUMN excluded_countries text NOT NULL DEFAULT '';
ALTER TABLE sites ADD COLUMN excluded_paths text NOT NULL DEFAULT '';
ALTER TABLE sites ADD COLUMN shields text NOT NULL DEFAULT '';
ALTER TABLE sites ADD COLUMN small_group integer NOT NULL DEFAULT 3;
ALTER TABLE sites ADD COLUMN hide_small_groups boolean NOT NULL DEFAULT false;
