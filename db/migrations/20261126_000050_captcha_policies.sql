-- oldest program: unchanged
-- How much work a sitekey asks for, and the last attack on it. JSON; {} is the installation's policy, and no attack.
ALTER TABLE sitekeys ADD COLUMN policy text NOT NULL DEFAULT '{}';
ALTER TABLE sitekeys ADD COLUMN attack text NOT NULL DEFAULT '{}';
