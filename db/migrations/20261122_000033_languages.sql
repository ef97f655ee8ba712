-- oldest program: 20261122_000033_languages
-- The languages of users, and of mails: those to an address without a user have the language of the request.
ALTER TABLE users ADD COLUMN language text NOT NULL DEFAULT 'en'; -- en or de
ALTER TABLE mails ADD COLUMN language text NOT NULL DEFAULT 'en';
