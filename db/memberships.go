package db

// AllMemberships is a table expression of the memberships of members and guests. site_ids is a JSON
// array of a guest's sites, and NULL for a member of the whole account.
//
// Guests have a table of their own, so that statements on memberships alone leave guests out: so do notices
// about an account.
const AllMemberships = `(SELECT user_id, account_id, role, created_at, NULL AS site_ids FROM memberships
UNION ALL SELECT user_id, account_id, 'VIEWER', created_at, site_ids FROM guests)`
