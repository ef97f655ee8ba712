package captcha_test

import (
	"fmt"
	"testing"
	"time"

	"github.com/tallygate/tallygate/db"
	"github.com/tallygate/tallygate/db/accounts"
	"github.com/tallygate/tallygate/db/model"
	"github.com/tallygate/tallygate/tools/dbtest"
	"github.com/tallygate/tallygate/tools/testkit"
	"github.com/tallygate/tallygate/tools/world/planetest"
)

const siteOrigin = "https://www.example.com"

// success is the answer of the compatible endpoint for a token that was issued at a given time for
// siteOrigin.
func success(issued time.Time) string {
	return `{"success":true,"challenge_ts":"` + issued.UTC().Format("2006-01-02T15:04:05.000Z") + `","hostname":"www.example.com"}`
}

// endpoint is one of the two ways to redeem a token, with its answers.
type endpoint struct {
	name                                 string
	redeem                               func(*plane, sitekey, string) string
	ok                                   func(issued time.Time) string
	reserve, used, expired, wrong, nomas string
}

var endpoints = []endpoint{
	{
		name: "siteverify", redeem: (*plane).Siteverify, ok: func(time.Time) string { return valid },
		reserve: fromReserve, used: invalid, expired: invalid, wrong: invalid, nomas: exceeded,
	},
	{
		name: "compat", redeem: (*plane).Compat, ok: success,
		used: refused("timeout-or-duplicate"), expired: refused("timeout-or-duplicate"), wrong: refused("invalid-input-response"),
		nomas: refused("quota-exceeded"),
	},
}

// taken returns the endpoint's answer for a token that is counted against the reserve.
func (e endpoint) taken(issued time.Time) string {
	if e.reserve != "" {
		return e.reserve
	}
	return e.ok(issued)
}

// eachEndpoint runs a test on both databases and with both endpoints, each with a new plane and
// account.
func eachEndpoint(t *testing.T, test func(t *testing.T, p *plane, e endpoint, account model.AccountID, key sitekey)) {
	t.Helper()

	dbtest.Each(t, func(t *testing.T, d *db.DB) {
		p := newPlane(t, d)
		for _, e := range endpoints {
			t.Run(e.name, func(t *testing.T) {
				p.TB = t
				p.Clock.Set(noon)
				account := p.Account(e.name, model.CaptchaPlanFree)
				test(t, p, e, account, p.Sitekey(account, "example.com"))
			})
		}
	})
}

// setUsage sets the account's usage of this month.
func (p *plane) setUsage(accountID model.AccountID, used int64) {
	p.TB.Helper()
	for _, statement := range []string{
		"DELETE FROM captcha_usage WHERE account_id = ?1 AND month = ?0", "INSERT INTO captcha_usage (account_id, month, used) VALUES (?1, ?0, ?2)",
	} {
		testkit.NoError(p.TB, dbtest.Exec(p.DB, statement, model.At(p.Clock.Now()).Month(), accountID, used))
	}
}

func (p *plane) setPlan(accountID model.AccountID, plan model.CaptchaPlan) {
	p.TB.Helper()
	testkit.NoError(p.TB, accounts.New(p.DB).SetCaptchaPlan(p.TB.Context(), accountID, plan))
}

func check(t *testing.T, what, got, want string) {
	t.Helper()
	testkit.Equal(t, got, want, "%s", what)
}

// TestTokenStates goes through the contract's table of a token's states (captcha contract, section
// 3), row by row.
func TestTokenStates(t *testing.T) {
	t.Parallel()
	eachEndpoint(t, func(t *testing.T, p *plane, e endpoint, account model.AccountID, key sitekey) {
		t.Run("issued, siteverify within quota and 5 minutes: consumed, valid", func(t *testing.T) {
			token := p.Token(key, siteOrigin)
			p.Clock.Add(5*time.Minute - time.Millisecond)
			check(t, "4:59.999", e.redeem(p, key, token), e.ok(p.Clock.Now().Add(-5*time.Minute+time.Millisecond)))
		})

		t.Run("issued, siteverify within the reserve: consumed, valid, from the reserve", func(t *testing.T) {
			p.setUsage(account, 10_000)
			token := p.Token(key, siteOrigin)
			check(t, "first", e.redeem(p, key, token), e.taken(p.Clock.Now()))
			check(t, "again", e.redeem(p, key, token), e.used)
		})

		t.Run("issued, siteverify with quota and reserve used up: issued, works after an upgrade", func(t *testing.T) {
			p.setUsage(account, 11_000)
			token := p.Token(key, siteOrigin)
			for range 3 {
				check(t, "exhausted", e.redeem(p, key, token), e.nomas)
			}

			check(t, "another sitekey's while exhausted", e.redeem(p, p.Sitekey(account), token), e.wrong)
			p.setPlan(account, model.CaptchaPlanPro100K)
			check(t, "after the upgrade", e.redeem(p, key, token), e.ok(p.Clock.Now()))
			check(t, "and again", e.redeem(p, key, token), e.used)
			p.setPlan(account, model.CaptchaPlanFree)
		})

		t.Run("issued, 5 minutes pass: expired, refused afterwards", func(t *testing.T) {
			p.setUsage(account, 0)
			token := p.Token(key, siteOrigin)
			p.Clock.Add(5 * time.Minute)
			check(t, "5:00", e.redeem(p, key, token), e.expired)
			p.Clock.Add(time.Hour)
			check(t, "1:05:00", e.redeem(p, key, token), e.expired)
		})

		t.Run("consumed, siteverify again: refused", func(t *testing.T) {
			p.setUsage(account, 0)
			token := p.Token(key, siteOrigin)
			check(t, "first", e.redeem(p, key, token), e.ok(p.Clock.Now()))

			for range 3 {
				check(t, "again", e.redeem(p, key, token), e.used)
			}

			testkit.Equal(t, p.CaptchaUsage(account).Used, 1, "counted")
		})

		t.Run("invalid and reused tokens are refused during the reserve, too", func(t *testing.T) {
			p.setUsage(account, 9_999)
			token := p.Token(key, siteOrigin)
			check(t, "the last of the quota", e.redeem(p, key, token), e.ok(p.Clock.Now()))
			check(t, "reused", e.redeem(p, key, token), e.used)
			check(t, "altered", e.redeem(p, key, "B"+p.Token(key, siteOrigin)[1:]), e.wrong)
			old := p.Token(key, siteOrigin)
			p.Clock.Add(5 * time.Minute)
			check(t, "expired", e.redeem(p, key, old), e.expired)

			testkit.Equal(t, p.CaptchaUsage(account).Used, 10_000, "counted")
		})
	})
}

// TestQuotaStates goes through the contract's table of the quota's states (captcha contract,
// section 3), row by row, and the limits that it names (section 8).
func TestQuotaStates(t *testing.T) {
	t.Parallel()
	eachEndpoint(t, func(t *testing.T, p *plane, e endpoint, account model.AccountID, key sitekey) {
		redeem := func(what string, want func(e endpoint, now time.Time) string) {
			t.Helper()
			check(t, what, e.redeem(p, key, p.Token(key, siteOrigin)), want(e, p.Clock.Now()))
		}

		inQuota := func(e endpoint, now time.Time) string { return e.ok(now) }
		inReserve := func(e endpoint, now time.Time) string { return e.taken(now) }
		exhausted := func(e endpoint, _ time.Time) string { return e.nomas }

		t.Run("within quota, verifications exceed the quota: reserve", func(t *testing.T) {
			p.setUsage(account, 9_999)
			redeem("the 10,000th", inQuota)
			redeem("the 10,001st", inReserve)
			if u := p.CaptchaUsage(account); u.Used != 10_001 || u.ReserveFrom != model.At(p.Clock.Now()) || u.OverQuota != 10_000 {
				t.Errorf("stored %+v", u)
			}
		})

		t.Run("reserve, used up: exhausted", func(t *testing.T) {
			p.setUsage(account, 10_999)
			redeem("the 11,000th", inReserve)
			redeem("the 11,001st", exhausted)
			testkit.Equal(t, p.CaptchaUsage(account).Used, 11_000, "counted")
		})

		t.Run("reserve, 7 days old: exhausted", func(t *testing.T) {
			p.setUsage(account, 10_000)
			p.Clock.Set(noon)
			redeem("first of the reserve", inReserve)
			p.Clock.Set(noon.Add(7*24*time.Hour - time.Microsecond))
			redeem("after 7 days less a microsecond", inReserve)
			p.Clock.Set(noon.Add(7 * 24 * time.Hour))
			redeem("after 7 days", exhausted)

			testkit.Equal(t, p.CaptchaUsage(account).Used, 10_002, "counted")
		})

		t.Run("exhausted, 1st of the next month (UTC): within quota", func(t *testing.T) {
			p.Clock.Set(time.Date(2026, 11, 30, 23, 59, 59, 999_000_000, time.UTC))
			p.setUsage(account, 11_000)
			token := p.Token(key, siteOrigin)
			check(t, "the last millisecond of November", e.redeem(p, key, token), e.nomas)
			p.Clock.Add(time.Millisecond)
			check(t, "the same token in December", e.redeem(p, key, token), e.ok(p.Clock.Now().Add(-time.Millisecond)))

			testkit.Equal(t, p.CaptchaUsage(account).Used, 1, "counted in December")
		})

		t.Run("reserve, 1st of the next month (UTC): within quota", func(t *testing.T) {
			p.Clock.Set(time.Date(2026, 12, 31, 23, 59, 0, 0, time.UTC))
			p.setUsage(account, 10_500)
			redeem("December", inReserve)
			p.Clock.Set(time.Date(2027, 1, 1, 0, 0, 0, 0, time.UTC))
			redeem("January", inQuota)
		})

		t.Run("exhausted, plan upgrade: within quota, and later a reserve of its own", func(t *testing.T) {
			p.Clock.Set(noon)
			p.setUsage(account, 10_999)
			redeem("the old reserve begins", inReserve)
			redeem("exhausted", exhausted)
			p.setPlan(account, model.CaptchaPlanPro100K)
			redeem("upgraded", inQuota)

			// The first reserve would have ended.
			p.Clock.Set(noon.Add(9 * 24 * time.Hour))

			testkit.NoError(t, dbtest.Exec(p.DB, "UPDATE captcha_usage SET used = 100000 WHERE account_id = ?", account))

			redeem("the new reserve begins", inReserve)

			if u := p.CaptchaUsage(account); u.ReserveFrom != model.At(p.Clock.Now()) || u.OverQuota != 100_000 {
				t.Errorf("stored %+v", u)
			}

			p.setPlan(account, model.CaptchaPlanFree)
			redeem("downgraded", exhausted)
		})

		t.Run("enterprise: unlimited", func(t *testing.T) {
			p.Clock.Set(noon)
			p.setUsage(account, 1<<40)
			p.setPlan(account, model.CaptchaPlanEnterprise)
			redeem("far beyond", inQuota)
			if u := p.CaptchaUsage(account); u.Used != 1<<40+1 || u.Quota != model.Unlimited || u.ReserveFrom != 0 {
				t.Errorf("stored %+v", u)
			}
		})
	})
}

// TestQuotaIsShared checks that all sitekeys of an account share its quota, and no other account's.
func TestQuotaIsShared(t *testing.T) {
	eachPlane(t, func(t *testing.T, p *plane) {
		account, other := p.Account("a", model.CaptchaPlanFree), p.Account("b", model.CaptchaPlanFree)
		p.setUsage(account, 10_998)
		first, second := p.Sitekey(account), p.Sitekey(account)
		check(t, "first sitekey", p.Siteverify(first, p.Token(first, "")), fromReserve)
		check(t, "second sitekey", p.Siteverify(second, p.Token(second, "")), fromReserve)
		check(t, "first sitekey again", p.Siteverify(first, p.Token(first, "")), exceeded)
		foreign := p.Sitekey(other)
		check(t, "another account", p.Siteverify(foreign, p.Token(foreign, "")), valid)
		check(t, "the test sitekey", p.Siteverify(planetest.TestSitekey, p.Token(planetest.TestSitekey, "")), valid)

		dbtest.HasRows(t, p.DB, "captcha_usage", 2, "rows of usage")
	})
}

// TestQuotaNotices checks that the owner is notified at 80 % and at 100 % of each quota, once each
// per month, by rows that the worker turns into mails.
func TestQuotaNotices(t *testing.T) {
	eachPlane(t, func(t *testing.T, p *plane) {
		account := p.Account("a", model.CaptchaPlanFree)
		key := p.Sitekey(account)
		redeem := func(used int64) {
			p.TB.Helper()
			testkit.NoError(t, dbtest.Exec(p.DB, "UPDATE captcha_usage SET used = ? WHERE account_id = ? AND month = ?", used, account,
				model.At(p.Clock.Now()).Month()))
			p.Siteverify(key, p.Token(key, ""))
		}

		notices := func(want ...string) {
			t.Helper()

			type notice struct {
				AccountID           model.AccountID
				SiteID              model.SiteID
				Product             string
				Month               model.Month
				Threshold           int
				CreatedAt, MailedAt model.Instant
				Quota               int64
			}

			rows, err := dbtest.Rows[notice](p.DB, "SELECT * FROM quota_notices ORDER BY month, created_at, threshold")
			testkit.NoError(t, err)

			var got []string
			for _, n := range rows {
				if n.AccountID != account || n.SiteID != 0 || n.Product != model.ProductCaptcha || n.MailedAt != 0 || n.CreatedAt.Month() != n.Month {
					t.Errorf("notice %+v", n)
				}

				shown := fmt.Sprintf("%d %d", n.Month, n.Threshold)
				if n.Quota != 10_000 {
					shown += fmt.Sprint(" of ", n.Quota)
				}
				got = append(got, shown)
			}

			if fmt.Sprint(got) != fmt.Sprint(want) {
				t.Errorf("at %v: notices %v, want %v", p.Clock.Now(), got, want)
			}
		}

		redeem(0)
		redeem(7_998)

		// The usage is 7,999 now.
		notices()
		redeem(7_999)
		notices("202611 80")
		redeem(8_000)
		p.Clock.Add(time.Second)
		redeem(9_998)
		notices("202611 80")
		redeem(9_999)
		notices("202611 80", "202611 100")
		redeem(10_500)
		p.setPlan(account, model.CaptchaPlanPro100K)

		// The thresholds of the new quota are others.
		p.Clock.Add(time.Second)
		redeem(79_998)
		notices("202611 80", "202611 100")
		redeem(79_999)
		redeem(80_000)
		notices("202611 80", "202611 100", "202611 80 of 100000")
		p.Clock.Add(time.Second)
		redeem(99_999)
		redeem(100_000)
		november := []string{"202611 80", "202611 100", "202611 80 of 100000", "202611 100 of 100000"}
		notices(november...)
		p.Clock.Set(time.Date(2026, 12, 1, 0, 0, 0, 0, time.UTC))
		redeem(0)
		notices(november...)
		redeem(79_999)
		notices(append(november, "202612 80 of 100000")...)

		// The usage exceeds the quota of the smaller plan.
		p.setPlan(account, model.CaptchaPlanFree)
		redeem(10_000)
		notices(append(november, "202612 80 of 100000", "202612 100")...)
	})
}
