package db

// AllMemberships is a table expression of the memberships of members and guests. site_ids is a JSON
// array of a guest's sites, and NULL for a member of the whole account.
//
// Guests have a table of their own, because programs before the migration of guests let each row of
// memberships read the whole account. Statements on memberships alone leave guests out: so do notices
// about an account. An earlier program can make a guest a member; the membership then counts.
const AllMemberships = `(SELECT user_id, account_id, role, created_at, NULL AS site_ids FROM memberships
UNION ALL SELECT user_id, account_id, 'VIEWER', created_at, site_ids FROM guests WHERE NOT EXISTS (
  SELECT 1 FROM memberships m WHERE m.user_id = guests.user_id AND m.account_id = guests.account_id))`
