package graph_test

import (
	"fmt"
	"testing"

	"github.com/tallygate/tallygate/db"
	"github.com/tallygate/tallygate/db/model"
	"github.com/tallygate/tallygate/tools/dbtest"
)

// TestUsageByMonthAndDay: months are complete, the current day is what the month has beyond its
// counted days, and is left out while yesterday is not counted.
func TestUsageByMonthAndDay(t *testing.T) {
	t.Parallel()
	const query = `query($id: ID!) { site(id: $id) { usageHistory(months: 3) { period used } usageByDay(days: 3) { day used } }
		viewer { account { captchaUsageHistory(months: 2) { period used } } } }`

	dbtest.Each(t, func(t *testing.T, d *db.DB) {
		c := newApp(t, d).owner("owner@example.com")
		site := c.siteOf("example.com")
		today := model.At(start).Day()
		for _, statement := range []string{
			"INSERT INTO site_usage (site_id, month, used) VALUES (1, 202611, 100), (1, 202609, 5)",
			fmt.Sprintf("INSERT INTO site_usage_days (site_id, day, used) VALUES (1, %d, 10), (1, %d, 20), (1, %d, 40), (1, %d, 7)", today-1,
				today-2, today-5, today-20),
			"INSERT INTO captcha_usage (account_id, month, used) VALUES (1, 202611, 3), (2, 202611, 9)",
		} {
			must(t, dbtest.Exec(d, statement))
		}

		const months = `"usageHistory":[{"period":"2026-11","used":100},{"period":"2026-10","used":0},{"period":"2026-09","used":5}]`
		const captcha = `"viewer":{"account":{"captchaUsageHistory":[{"period":"2026-11","used":3},{"period":"2026-10","used":0}]}}`
		c.query(query, "id", site).named("before yesterday is counted").is(t,
			`{"data":{"site":{`+months+`,"usageByDay":[{"day":"2026-11-19","used":10},{"day":"2026-11-18","used":20}]},`+captcha+`}}`)

		must(t, dbtest.Exec(d, fmt.Sprintf("INSERT INTO settings (name, value) VALUES ('usage_day_counted', '%d')", today-1)))
		if got := c.query(query, "id", site); got.Body != `{"data":{"site":{`+months+
			`,"usageByDay":[{"day":"2026-11-20","used":30},{"day":"2026-11-19","used":10},{"day":"2026-11-18","used":20}]},`+captcha+`}}` {
			t.Errorf("after it: %s", got.Body)
		}

		for field, argument := range map[string]string{
			"usageHistory(months: 0) { used }": "months", "usageHistory(months: 26) { used }": "months", "usageByDay(days: 91) { used }": "days",
		} {
			c.site(site, ``+field+``).named("%s of %s", argument, field).code(t, "INVALID_ARGUMENT")
		}
	})
}

// TestSitekeyActivity: the counters of a sitekey, with a notice of refusals that the owner can
// resolve.
func TestSitekeyActivity(t *testing.T) {
	t.Parallel()
	const query = `query($id: ID!) { sitekey(id: $id) { notice usageHistory(months: 1) { period used }
		activity(days: 2) { day challenges solved verified medianWorkMs refusals { endpoint code count expected advice } } } }`

	dbtest.Each(t, func(t *testing.T, d *db.DB) {
		c := newApp(t, d).owner("owner@example.com")
		key := c.createSitekey("form").ok(t, "createSitekey").at("createSitekey.sitekey.id")
		today := model.At(start).Day()
		count := func(day model.Day, name string, n int) {
			t.Helper()
			must(t, dbtest.Exec(d, "INSERT INTO captcha_counts (sitekey_id, day, name, count) VALUES (1, ?, ?, ?)", day, name, n))
		}

		count(today, model.CaptchaChallenge, 5)
		count(today, model.CaptchaSolved, 4)
		count(today, model.CaptchaVerified, 3)
		count(today, model.CaptchaWork(1e9), 4)
		count(today, model.CaptchaRefusal("siteverify", model.RefusedUsedToken), 2)
		count(today-2, model.CaptchaVerified, 30)

		got := c.query(query, "id", key).ok(t, "")
		day := "sitekey.activity.0."
		if ms, _ := got.at(day + "medianWorkMs").(float64); ms < 900 || ms > 1100 || got.at(day+"solved") != 4.0 || got.at(day+"day") != "2026-11-20" ||
			got.at(day+"refusals.0.code") != "used_token" || got.at(day+"refusals.0.expected") != true || got.at("sitekey.notice") != nil ||
			got.at("sitekey.activity.1") != nil || got.at("sitekey.usageHistory.0.used") != 33.0 {
			t.Errorf("activity %s", got.Body)
		}

		count(today-6, model.CaptchaRefusal("config", "domain_not_allowed"), 2)
		count(today-7, model.CaptchaRefusal("config", "wrong_secret"), 2)
		if got := c.query(query, "id", key); got.at("sitekey.notice") != "2 calls were refused in the last 7 days. See activity for reasons and advice." {
			t.Errorf("notice %s", got.Body)
		}
	})
}
