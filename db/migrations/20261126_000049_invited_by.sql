-- oldest program: unchanged
-- The user who invites. 0 for invitations of the command line, and of earlier versions.
ALTER TABLE invitations ADD COLUMN invited_by bigint NOT NULL DEFAULT 0;
