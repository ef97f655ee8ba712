package graph_test

import (
	"reflect"
	"strings"
	"testing"

	"github.com/tallygate/tallygate/db"
	"github.com/tallygate/tallygate/db/dbtest"
	"github.com/tallygate/tallygate/db/model"
)

// TestDeleteUserData: the payload reports what has been erased, the erasure can be read later, and
// only a session of a member or owner can request it.
func TestDeleteUserData(t *testing.T) {
	const fields = `__typename id requestedAt visits pageviews events deliveries finishedAt`
	dbtest.Each(t, func(t *testing.T, d *db.DB) {
		a := newApp(t, d)
		owner := a.owner("owner@example.com")
		member := a.join(owner, "member@example.com", model.RoleMember)
		id := owner.createSite("example.com").ok(t, "createSite").at("createSite.site.id").(string)
		userID := strings.Repeat("0a", 32)

		at := model.At(start) - 1
		for i, subject := range []string{userID, strings.Repeat("0b", 32)} {
			err := dbtest.Exec(d, "INSERT INTO visits (site_id, visitor, day, n, started_at, last_pageview_at, pageviews, channel, user_id) VALUES (1, ?, ?, 1, ?, ?, 1, 1, ?)",
				model.FirstTimeID(at)+int64(i), at.Day(), at, at, model.NewUserIDKey([]byte(dbtest.ApplicationKey)).Of(1, subject))
			if err == nil {
				err = dbtest.Exec(d, "INSERT INTO pageviews (site_id, at, id, visitor, n, width_range, manual, path) VALUES (1, ?, ?, ?, 1, 0, false, '/')",
					at, i, model.FirstTimeID(at)+int64(i))
			}

			if err != nil {
				t.Fatal(err)
			}
		}

		erase := `mutation($id: ID!, $user: String!) { deleteUserData(input: {siteId: $id, userId: $user}) { erasure { ` + fields + ` } userErrors { field code } } }`
		if got := member.query(erase, "id", id, "user", userID+"0"); got.userErrors("deleteUserData") != "userId:INVALID_USER_ID" || got.at("deleteUserData.erasure") != nil {
			t.Errorf("a wrong id: %s", got.Body)
		}

		token := owner.createToken("READ", "WRITE", "EXPORT")
		refused := a.with(token.secret, `mutation { deleteUserData(input: {siteId: "`+id+`", userId: "`+userID+`"}) { erasure { id } } }`)
		if refused.codes() != "FORBIDDEN" {
			t.Errorf("a token: %s", refused.Body)
		}

		got := member.query(erase, "id", id, "user", userID).ok(t, "deleteUserData")
		want := map[string]any{
			"__typename": "UserDataErasure", "requestedAt": "2026-11-20T09:30:00Z", "finishedAt": "2026-11-20T09:30:00Z",
			"visits": 1.0, "pageviews": 1.0, "events": 0.0, "deliveries": 0.0, "id": got.at("deleteUserData.erasure.id"),
		}
		if erasure := got.at("deleteUserData.erasure"); !reflect.DeepEqual(erasure, want) {
			t.Errorf("the answer %v, want %v", erasure, want)
		}

		read := owner.query(`query($id: ID!) { node(id: $id) { ... on UserDataErasure { `+fields+` } } }`, "id", want["id"])
		if erasure := read.at("node"); !reflect.DeepEqual(erasure, want) {
			t.Errorf("read: %s, want %v", read.Body, want)
		}
		if read := a.owner("other@example.com").query(`query($id: ID!) { node(id: $id) { id } }`, "id", want["id"]); read.Body != `{"data":{"node":null}}` {
			t.Errorf("another account reads %s", read.Body)
		}
		if visits, err := dbtest.Count(d, "visits"); visits != 1 || err != nil {
			t.Errorf("%d visits are left, %v; want the other user's", visits, err)
		}
	})
}
