package graph_test

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/tallygate/tallygate/db/model"
	"github.com/tallygate/tallygate/db/sites"
	"github.com/tallygate/tallygate/tools/dbtest"
)

const policyFields = `policy { baseSeconds baseHashes isBaseDefault maxSeconds maxHashes isMaxDefault freeChallenges automation strict attackMode exemptNetworks }`

// updatePolicy changes a policy by fields of UpdateCaptchaPolicyInput.
func (c *client) updatePolicy(id, fields string) *answer {
	return c.query(`mutation($id: ID!) { updateCaptchaPolicy(input: {sitekeyId: $id, `+fields+`}) { sitekey { `+policyFields+
		` } userErrors { field code } } }`, "id", id)
}

// TestCaptchaPolicy reads the defaults of a new sitekey, changes every value, and returns to the
// defaults.
func TestCaptchaPolicy(t *testing.T) {
	const defaults = `{"baseSeconds":0.175,"baseHashes":524288,"isBaseDefault":true,"maxSeconds":5.592,"maxHashes":16777216,"isMaxDefault":true,` +
		`"freeChallenges":8,"automation":"HARDER","strict":false,"attackMode":"AUTO","exemptNetworks":[]}`

	eachOwner(t, func(t *testing.T, a *app, c *client) {
		id := c.done("createSitekey", "name", "form").at("createSitekey.sitekey.id").(string)

		policy := func(got *answer) string {
			t.Helper()
			_, text, _ := strings.Cut(got.Body, `"policy":`)
			text, _, _ = strings.Cut(text, `},`)
			return strings.TrimRight(text, "}") + "}"
		}
		if got := policy(c.query(`query($id: ID!) { sitekey(id: $id) { `+policyFields+` } }`, "id", id)); got != defaults {
			t.Errorf("a new sitekey: %s", got)
		}

		for _, test := range []struct{ change, want string }{
			{`baseSeconds: 1.5`, `{"baseSeconds":1.5,"baseHashes":4500000,"isBaseDefault":false,"maxSeconds":12,"maxHashes":36000000,"isMaxDefault":true,` +
				`"freeChallenges":8,"automation":"HARDER","strict":false,"attackMode":"AUTO","exemptNetworks":[]}`},
			{`maxSeconds: 60, freeChallenges: 3, automation: LIMIT, strict: true, attackMode: ON, exemptNetworks: ["198.51.100.7", "2001:db8::/32", "198.51.100.7/32"]`,
				`{"baseSeconds":1.5,"baseHashes":4500000,"isBaseDefault":false,"maxSeconds":60,"maxHashes":180000000,"isMaxDefault":false,` +
					`"freeChallenges":3,"automation":"LIMIT","strict":true,"attackMode":"ON","exemptNetworks":["198.51.100.7/32","2001:db8::/32"]}`},
			{`baseSeconds: 0, maxSeconds: 0, freeChallenges: 0, automation: HARDER, strict: false, attackMode: AUTO, exemptNetworks: []`, defaults},
		} {
			equal(t, policy(c.updatePolicy(id, test.change).ok(t, "updateCaptchaPolicy")), test.want, "%s", test.change)
		}
	})
}

// TestInvalidCaptchaPolicies: each mistake names its field, and nothing is changed.
func TestInvalidCaptchaPolicies(t *testing.T) {
	eachOwner(t, func(t *testing.T, a *app, c *client) {
		id := c.done("createSitekey", "name", "form").at("createSitekey.sitekey.id").(string)
		c.updatePolicy(id, `baseSeconds: 2`).ok(t, "updateCaptchaPolicy")

		networks := make([]string, model.MaxExemptNetworks+1)
		for i := range networks {
			networks[i] = fmt.Sprintf(`"198.51.100.%d"`, i)
		}

		for change, want := range map[string]string{
			`baseSeconds: 60.001`:             "baseSeconds:INVALID_WORK",
			`baseSeconds: -1`:                 "baseSeconds:INVALID_WORK",
			`baseSeconds: 0.0001`:             "baseSeconds:INVALID_WORK",
			`baseSeconds: 1e300`:              "baseSeconds:INVALID_WORK",
			`maxSeconds: 1.999`:               "maxSeconds:INVALID_WORK",
			`freeChallenges: 1001`:            "freeChallenges:INVALID_NUMBER",
			`freeChallenges: -1`:              "freeChallenges:INVALID_NUMBER",
			`exemptNetworks: ["example.com"]`: "exemptNetworks.0:INVALID_NETWORK",
			`exemptNetworks: [` + strings.Join(networks, ",") + `]`: "exemptNetworks:TOO_MANY_EXEMPT_NETWORKS",
			`strict: true, maxSeconds: 61, freeChallenges: -1`:      "maxSeconds:INVALID_WORK freeChallenges:INVALID_NUMBER",
		} {
			c.updatePolicy(id, change).named("%s", change).fails(t, "updateCaptchaPolicy", want)
		}

		unchanged := c.query(`query($id: ID!) { sitekey(id: $id) { policy { baseSeconds strict exemptNetworks } } }`, "id", id)
		unchanged.named("afterwards").is(t,
			`{"data":{"sitekey":{"policy":{"baseSeconds":2,"strict":false,"exemptNetworks":[]}}}}`)
	})
}

// TestCaptchaAttack shows an attack while it makes the work harder, and its figures afterwards.
func TestCaptchaAttack(t *testing.T) {
	const query = `query($id: ID!) { sitekey(id: $id) { attack { isActive factor highestFactor since seenAt networks challenges refused usualNetworks } } }`
	eachOwner(t, func(t *testing.T, a *app, c *client) {
		id := c.done("createSitekey", "name", "form").at("createSitekey.sitekey.id").(string)
		c.query(query, "id", id).named("calm").is(t, `{"data":{"sitekey":{"attack":null}}}`)

		keys, err := dbtest.Rows[struct {
			ID        model.SitekeyID
			AccountID model.AccountID
		}](a.db, "SELECT id, account_id FROM sitekeys")
		if err != nil || len(keys) != 1 {
			t.Fatal(keys, err)
		}
		saw := func(level int, networks int64) {
			t.Helper()
			seen := model.CaptchaAttack{
				Level: level, Seen: model.At(a.clock.Now()), Networks: networks, Challenges: networks + 7, Refused: 3,
				Usual: 40,
			}
			must(t, sites.New(a.db).Sitekeys.SawAttack(t.Context(), keys[0].AccountID, keys[0].ID, seen))
		}
		show := func(what, want string) {
			t.Helper()
			c.query(query, "id", id).named("%s", what).shows(t, want)
		}

		saw(1, 500)
		show("seen", `"isActive":true,"factor":2,"highestFactor":2,"since":"2026-11-20T09:30:00Z","seenAt":"2026-11-20T09:30:00Z","networks":500,"challenges":507,"refused":3,"usualNetworks":40`)
		a.clock.Add(time.Minute)
		saw(3, 7_000)
		show("rising", `"factor":8,"highestFactor":8,"since":"2026-11-20T09:30:00Z","seenAt":"2026-11-20T09:31:00Z","networks":7000,`)

		// A lower level does not end a higher one early.
		a.clock.Add(time.Minute)
		saw(1, 600)
		show("falling", `"factor":8,"highestFactor":8,"since":"2026-11-20T09:30:00Z","seenAt":"2026-11-20T09:31:00Z","networks":7000,`)
		a.clock.Add(9 * time.Minute)
		show("one step lower", `"isActive":true,"factor":4,`)

		c.updatePolicy(id, `attackMode: OFF`).ok(t, "updateCaptchaPolicy")
		show("without effect", `"isActive":false,"factor":1,"highestFactor":1,`)
		c.updatePolicy(id, `attackMode: AUTO`).ok(t, "updateCaptchaPolicy")

		a.clock.Add(20 * time.Minute)
		show("over", `"isActive":false,"factor":1,"highestFactor":8,"since":"2026-11-20T09:30:00Z"`)
		equal(t, value(dbtest.Count(a.db, "mails"))(t), 1, "rows of mails")

		a.clock.Add(time.Minute)
		saw(1, 450)
		show("another attack", `"isActive":true,"factor":2,"highestFactor":2,"since":"2026-11-20T10:02:00Z","seenAt":"2026-11-20T10:02:00Z","networks":450,`)
		equal(t, value(dbtest.Count(a.db, "mails"))(t), 2, "rows of mails")
	})
}
