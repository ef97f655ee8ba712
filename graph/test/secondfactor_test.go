package graph_test

import (
	"bytes"
	"encoding/base32"
	"fmt"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"net/url"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/pquerna/otp/totp"
	"github.com/vektah/gqlparser/v2/ast"

	"github.com/tallygate/tallygate/db/accounts"
	"github.com/tallygate/tallygate/db/model"
	"github.com/tallygate/tallygate/graph/export"
	"github.com/tallygate/tallygate/tools/dbtest"
)

// signIn2 signs in with a code; "" for none.
func (c *client) signIn2(email, code string) *answer {
	c.t.Helper()
	return c.do("signIn", "email", email, "password", password, "secondFactor", code)
}

// code returns the code of an authenticator app at the clock's time.
func (a *app) code(secret string) string {
	a.t.Helper()
	code := value(totp.GenerateCode(secret, a.clock.Now()))(a.t)
	return code
}

// nextCode moves the clock to the next period, and returns its code.
func (a *app) nextCode(secret string) string {
	a.clock.Add(model.TOTPPeriod)
	return a.code(secret)
}

// enableTOTP sets up an authenticator app, and returns its secret and the recovery codes.
func (c *client) enableTOTP() (secret string, codes []string) {
	c.t.Helper()
	secret = c.done("startTotp", "password", password).at("startTotp.secret").(string)
	confirmed := c.done("confirmTotp", "code", c.app.code(secret))
	for _, code := range confirmed.at("confirmTotp.recoveryCodes").([]any) {
		codes = append(codes, code.(string))
	}
	return secret, codes
}

// mailsOf returns the data of the mails of a kind.
func (a *app) mailsOf(kind string) []string {
	a.t.Helper()
	type row struct{ Data string }
	rows := value(dbtest.Rows[row](a.db, "SELECT data FROM mails WHERE kind = ? ORDER BY id", kind))(a.t)

	var data []string
	for _, row := range rows {
		data = append(data, row.Data)
	}
	return data
}

func TestTOTP(t *testing.T) {
	const email = "owner@example.com"
	eachApp(t, func(t *testing.T, a *app) {
		laptop := a.owner(email)
		other := a.client()
		other.signIn(email, password).ok(t, "signIn")

		// Nothing is in use before the first code.
		laptop.do("confirmTotp", "code", "123456").named("a code without a setup").fails(t, "confirmTotp", ":SETUP_EXPIRED")
		laptop.do("startTotp", "password", "wrong password").
			named("a wrong password").fails(t, "startTotp", "password:WRONG_CREDENTIALS").has(t, "startTotp.secret", nil)

		setup := laptop.done("startTotp", "password", password)
		abandoned := setup.at("startTotp.secret").(string)
		if uri := setup.at("startTotp.uri").(string); !strings.HasPrefix(uri, "otpauth://totp/Tallygate%20127.0.0.1:owner@example.com?") ||
			!strings.Contains(uri, abandoned) {
			t.Errorf("the URI is %s", uri)
		}
		if size := setup.at("startTotp.qrCode.size").(float64); size < 21 ||
			!strings.HasPrefix(setup.at("startTotp.qrCode.path").(string), "M0 0h7v1h-7z") {
			t.Errorf("the QR code has %v modules: %s", size, setup.at("startTotp.qrCode.path"))
		}

		a.clock.Add(model.TOTPSetupLifetime)
		laptop.do("confirmTotp", "code", a.code(abandoned)).
			named("a setup that is too old").fails(t, "confirmTotp", ":SETUP_EXPIRED")
		if n, err := accounts.New(a.db).DeleteExpiredSecrets(t.Context(), model.At(a.clock.Now())); err != nil || n != 1 {
			t.Errorf("housekeeping: %d, %v", n, err)
		}

		secret := laptop.done("startTotp", "password", password).at("startTotp.secret").(string)
		for _, wrong := range []string{"", "12345", "1234567", "abcdef", a.code(abandoned)} {
			laptop.do("confirmTotp", "code", wrong).
				named("the first code %q", wrong).fails(t, "confirmTotp", "code:INVALID_SECOND_FACTOR")
		}
		other.signIn(email, password).ok(t, "signIn")

		first := a.code(secret)
		confirmed := laptop.done("confirmTotp", "code", first[:3]+" "+first[3:])
		codes := confirmed.at("confirmTotp.recoveryCodes").([]any)
		if len(codes) != model.RecoveryCodes || confirmed.at("confirmTotp.viewer.hasSecondFactor") != true {
			t.Errorf("confirmed: %s", confirmed.Body)
		}
		if laptop.viewer() == "" || other.viewer() != "" {
			t.Error("the own session ended, or another one without a second factor continues")
		}

		// The secret is not readable in the database.
		if dump := a.dump(); strings.Contains(dump, secret) || strings.Contains(dump, strings.ReplaceAll(codes[0].(string), "-", "")) {
			t.Error("a secret or a recovery code is stored as it is")
		}
		raw, err := base32.StdEncoding.WithPadding(base32.NoPadding).DecodeString(secret)
		rows, rowsErr := dbtest.Rows[[]byte](a.db, "SELECT secret FROM totp_secrets")
		if err != nil || rowsErr != nil || len(rows) != 1 || bytes.Contains(rows[0], raw) {
			t.Errorf("stored secrets: %d, %v, %v", len(rows), err, rowsErr)
		}

		// The password alone starts no session.
		got := other.signIn(email, password).ok(t, "signIn")
		got.named("the password alone").has(t, "signIn.viewer", nil)
		equal(t, other.viewer(), "", "the password alone")
		if got := other.signIn2(email, "").ok(t, "signIn"); fmt.Sprint(got.at("signIn.secondFactorMethods")) != "[TOTP RECOVERY_CODE]" ||
			got.at("signIn.passkeyRequest") != nil {
			t.Errorf("a missing second factor: %s", got.Body)
		}

		// The code of the setup has been used. A code counts once, for its own period and its
		// neighbours.
		refused := func(what, code string) {
			t.Helper()
			other.signIn2(email, code).named("%s", what).fails(t, "signIn", "secondFactor:INVALID_SECOND_FACTOR")
			equal(t, other.viewer(), "", "%s", what)
		}
		refused("the code of the setup", first)
		next := a.nextCode(secret)
		a.clock.Add(model.TOTPPeriod)
		other.signIn2(email, next).ok(t, "signIn").named("the code of the period before").has(t, "signIn.viewer.email", email)
		other.signOut()
		refused("a code again", next)
		refused("an unknown recovery code", model.NewRecoveryCodes()[0])
		early := value(totp.GenerateCode(secret, a.clock.Now().Add(model.TOTPPeriod)))(t)
		other.signIn2(email, early).ok(t, "signIn")
		other.signOut()
		refused("a code older than the last one", a.code(secret))
		a.clock.Add(3 * model.TOTPPeriod)
		refused("an old code", early)

		// A recovery code works once, however it is typed.
		code := codes[0].(string)
		other.signIn2(email, strings.ToUpper(strings.ReplaceAll(code, "-", " "))).ok(t, "signIn")
		differ(t, other.viewer(), "", "a recovery code does not sign in")
		other.signOut()
		refused("a recovery code again", code)
		if mails := a.mailsOf(model.MailRecoveryCode); len(mails) != 1 || !strings.Contains(mails[0], `"left":9`) {
			t.Errorf("mails about recovery codes: %v", mails)
		}

		// New recovery codes replace the old ones.
		a.clock.Add(time.Hour)
		renewed := laptop.done("renewRecoveryCodes", "password", password).at("renewRecoveryCodes.recoveryCodes").([]any)
		refused("a replaced recovery code", codes[1].(string))
		other.signIn2(email, renewed[9].(string)).ok(t, "signIn")

		// A new phone: the old app works until the new one is confirmed, and then no more.
		replaced := laptop.done("startTotp", "password", password).at("startTotp.secret").(string)
		other.signIn2(email, a.nextCode(secret)).ok(t, "signIn")
		if got := laptop.done("confirmTotp", "code", a.nextCode(replaced)); fmt.Sprint(got.at("confirmTotp.recoveryCodes")) != "[]" ||
			other.viewer() == "" {
			t.Errorf("a new app: %s", got.Body)
		}
		other.signOut()
		refused("the code of the old app", a.nextCode(secret))

		// Removal needs the password, and asks for no second factor afterwards.
		laptop.do("disableTotp", "password", "wrong password").
			named("a wrong password").fails(t, "disableTotp", "password:WRONG_CREDENTIALS")
		laptop.done("disableTotp", "password", password).named("disabled").has(t, "disableTotp.viewer.hasSecondFactor", false)
		laptop.do("disableTotp", "password", password).named("disabled again").fails(t, "disableTotp", ":NO_SECOND_FACTOR")
		laptop.do("renewRecoveryCodes", "password", password).
			named("codes without a second factor").fails(t, "renewRecoveryCodes", ":NO_SECOND_FACTOR")
		other.signIn(email, password).ok(t, "signIn").named("the password alone, again").has(t, "signIn.viewer.email", email)
		if rows, err := dbtest.Rows[int](a.db, "SELECT count(*) FROM recovery_codes"); err != nil || rows[0] != 0 {
			t.Errorf("%v recovery codes are left, %v", rows, err)
		}
		if mails := a.mailsOf(model.MailSecondFactor); len(mails) != 3 || !strings.Contains(mails[0], `"added":true`) ||
			strings.Contains(mails[2], "added") {
			t.Errorf("mails about second factors: %v", mails)
		}
	})
}

// TestSecondFactorIsNotGuessed: wrong codes are counted for the user, over all networks and also in
// parallel, and only callers with the right password raise that counter.
func TestSecondFactorIsNotGuessed(t *testing.T) {
	const email = "owner@example.com"
	eachApp(t, func(t *testing.T, a *app) {
		owner := a.owner(email)
		secret, codes := owner.enableTOTP()
		a.owner("second@example.com").enableTOTP()
		wrong := "000000"
		if wrong == a.code(secret) {
			wrong = "111111"
		}

		guess := func(i int) *answer {
			thief := a.client()
			thief.address = fmt.Sprintf("192.0.2.%d", 10+i)
			return thief.signIn2(email, wrong)
		}
		var checked sync.Map
		var all sync.WaitGroup
		for i := range 12 {
			all.Go(func() {
				if got := guess(i); got.userErrors("signIn") == "secondFactor:INVALID_SECOND_FACTOR" {
					checked.Store(i, true)
				} else if got.codes() != "RATE_LIMITED" {
					t.Errorf("guess %d: %s", i, got.Body)
				}
			})
		}
		all.Wait()

		n := 0
		checked.Range(func(any, any) bool { n++; return true })
		equal(t, n, 5, "12 guesses were checked")

		// The right code waits as well, from an unknown device, and the owner's browser does not.
		visitor := a.client()
		visitor.address = "198.51.100.9"
		visitor.signIn2(email, codes[0]).named("a right code during the wait").code(t, "RATE_LIMITED")
		owner.signOut()
		owner.signIn2(email, a.nextCode(secret)).ok(t, "signIn")

		a.clock.Add(time.Minute)
		visitor.signIn2(email, codes[0]).ok(t, "signIn")
		differ(t, visitor.viewer(), "", "the right code after the wait does not sign in")
	})
}

// TestPasswordChangesKeepSecondFactors: neither a reset by mail nor a change removes a second
// factor or signs in without it.
func TestPasswordChangesKeepSecondFactors(t *testing.T) {
	const email, next = "owner@example.com", "a new password"
	eachApp(t, func(t *testing.T, a *app) {
		owner := a.owner(email)
		secret, _ := owner.enableTOTP()

		owner.done("changePassword", "currentPassword", password, "password", next)
		differ(t, owner.viewer(), "", "the session ended with the change")

		thief := a.client()
		thief.done("requestPasswordReset", "email", email)
		thief.done("resetPassword", "token", a.mailedSecret(email), "password", password)
		thief.signIn2(email, "").ok(t, "signIn").named("after a reset").has(t, "signIn.viewer", nil)
		equal(t, thief.viewer(), "", "after a reset")
		thief.signIn2(email, a.nextCode(secret)).ok(t, "signIn")
		differ(t, thief.viewer(), "", "the code does not sign in after the reset")
	})
}

// TestRequiredSecondFactor: a member without the second factor that the account requires can call
// only what sets one up.
func TestRequiredSecondFactor(t *testing.T) {
	// What such a member may call, and what needs no account at all.
	open := []string{
		"viewer", "installation", "passkeySignIn", "signOut", "startTotp", "confirmTotp", "disableTotp", "renewRecoveryCodes",
		"startPasskeyRegistration", "finishPasskeyRegistration", "renamePasskey", "deletePasskey", "leaveAccount",
		"signUp", "confirmSignUp", "signIn", "startProviderSignIn", "finishProviderSignIn", "signInWithPasskey", "requestPasswordReset",
		"resetPassword", "acceptInvitation", "invitationOffer", "openSharedLink",
		"stopAlertMails", "confirmEmailChange", "confirmAlertChannel",
	}
	eachAppWith(t, unlimited, func(t *testing.T, a *app) {
		owner := a.owner("owner@example.com")
		site := owner.siteOf("first.example")
		member := a.join(owner, "member@example.com", model.RoleMember)
		token := member.createToken("READ", "WRITE", "EXPORT")

		require := func(c *client, on bool) *answer {
			return c.do("setAccountSecurity", "password", password, "requireSecondFactor", on)
		}
		require(owner, true).named("an owner without a second factor").fails(t, "setAccountSecurity", ":NO_SECOND_FACTOR")
		secret, _ := owner.enableTOTP()
		require(owner, true).ok(t, "setAccountSecurity").
			named("required").has(t, "setAccountSecurity.account.requireSecondFactor", true)
		require(member, false).named("a member").code(t, "FORBIDDEN")

		// The owners see who lacks one; the members do not see it of each other.
		const members = `{ viewer { account { members { email hasSecondFactor secondFactors { recoveryCodesLeft } } } } }`
		if got := owner.query(members).ok(t, ""); got.at("viewer.account.members.0.secondFactors.recoveryCodesLeft") != 10.0 ||
			got.at("viewer.account.members.1.hasSecondFactor") != false || got.at("viewer.account.members.1.secondFactors") != nil {
			t.Errorf("the members: %s", got.Body)
		}

		// Every field that is not open, also with the member's token.
		ids := func(name string) string {
			if name == "siteId" || name == "id" {
				return site
			}
			return unknownSession
		}
		for op, def := range map[ast.Operation]*ast.Definition{ast.Query: schema.Query, ast.Mutation: schema.Mutation} {
			for _, f := range fieldsOf(def) {
				if slices.Contains(open, f.Name) || f.Name == "sharedSite" {
					continue
				}
				got := member.call(t, op, f, ids)
				want := "SECOND_FACTOR_REQUIRED"
				if slices.Contains(strings.Fields("updateAccount deleteSite deleteSitekey inviteMember revokeInvitation setMemberRole removeMember deleteAccount restoreSite transferSite transferSitekey suspendAccount resumeAccount setAccountSecurity setAccountProvider verifyProviderDomain deleteAccountProvider setSitePlan setCaptchaPlan installationHealth accounts"), f.Name) {
					want = "FORBIDDEN"
				}
				got.named("%s", f.Name).code(t, want)
			}
		}
		for query, want := range map[string]string{
			`{ viewer { email role hasSecondFactor account { id name requireSecondFactor createdAt } } }`: "",
			`{ viewer { account { sites { edges { node { domain } } } } } }`:                              "SECOND_FACTOR_REQUIRED",
			`{ viewer { account { name other: members { email } } } }`:                                    "SECOND_FACTOR_REQUIRED",
			`{ viewer { account { captchaPlan } } }`:                                                      "SECOND_FACTOR_REQUIRED",
		} {
			member.query(query).named("%s", query).code(t, want)
		}
		for _, query := range []string{`{ sites { totalCount } }`, `{ viewer { email } }`, `{ node(id: "` + site + `") { id } }`} {
			a.with(token.secret, query).named("with the member's token, %s", query).code(t, "SECOND_FACTOR_REQUIRED")
		}

		r := value(http.NewRequest(http.MethodGet, a.url, nil))(t)
		r.Header.Set("Authorization", "Bearer "+token.secret)
		if _, err := a.auth.Downloader(r); model.KindOf(err) != model.Forbidden {
			t.Errorf("a download: %v", err)
		}

		// The owner is not barred, and cannot remove the last second factor.
		owner.query(`{ sites { totalCount } }`).ok(t, "")
		owner.do("disableTotp", "password", password).
			named("the last second factor").fails(t, "disableTotp", ":SECOND_FACTOR_NEEDED")

		// A new member joins, and is barred as well; with a second factor every field opens.
		owner.signIn2("owner@example.com", a.nextCode(secret)).ok(t, "signIn")
		late := a.join(owner, "late@example.com", model.RoleViewer)
		late.query(`{ sites { totalCount } }`).named("a new member").code(t, "SECOND_FACTOR_REQUIRED")
		member.enableTOTP()
		member.query(`{ sites { totalCount } viewer { account { members { email } } } }`).ok(t, "")
		a.with(token.secret, `{ sites { totalCount } }`).ok(t, "")

		require(owner, false).ok(t, "setAccountSecurity")
		late.query(`{ sites { totalCount } }`).ok(t, "")
		owner.done("disableTotp", "password", password)
	})
}

// TestDownloadInAnotherAccount: a person who lacks the second factor that one account requires can
// download rows of another one, whichever is the default account.
func TestDownloadInAnotherAccount(t *testing.T) {
	eachApp(t, func(t *testing.T, a *app) {
		owner, person := a.owner("owner@example.com"), a.owner("person@example.com")
		strict, own := owner.siteOf("strict.example"), person.siteOf("own.example")
		handler := export.Handler(export.Options{DB: a.db, User: a.auth.Downloader, Log: slog.New(slog.DiscardHandler)})

		status := func(site, credential, value string) int {
			r := httptest.NewRequest(http.MethodGet, export.Path+"?"+url.Values{
				"site_id": {site}, "type": {"pageviews"}, "from": {"2026-11-01"}, "to": {"2026-11-02"}, "format": {"csv"},
			}.Encode(), nil)
			r.Header.Set(credential, value)
			w := httptest.NewRecorder()
			handler.ServeHTTP(w, r)
			return w.Code
		}
		session := func(c *client) string {
			var pairs []string
			for name, value := range c.cookies() {
				pairs = append(pairs, name+"="+value)
			}
			return strings.Join(pairs, "; ")
		}

		// A member of the strict account owns an account too, and a person with an own account
		// joins it: the strict account is the default one of the first and not of the second.
		member := a.join(owner, "member@example.com", model.RoleMember)
		second := member.done("createAccount", "name", "Second").at("createAccount.account.id")
		created := member.do("createSite", "accountId", second, "domain", "second.example")
		other := created.ok(t, "createSite").at("createSite.site.id").(string)
		person.query(joinMutation, "token", a.invite(owner, "person@example.com", model.RoleViewer)).ok(t, "acceptInvitation")
		token := member.createToken("EXPORT")

		owner.enableTOTP()
		owner.done("setAccountSecurity", "password", password, "requireSecondFactor", true)

		for name, test := range map[string]struct {
			site, credential, value string
			want                    int
		}{
			"member, second account":           {other, "Cookie", session(member), http.StatusOK},
			"member, strict account":           {strict, "Cookie", session(member), http.StatusForbidden},
			"member, another person's account": {own, "Cookie", session(member), http.StatusNotFound},
			"person, own account":              {own, "Cookie", session(person), http.StatusOK},
			"person, strict account":           {strict, "Cookie", session(person), http.StatusForbidden},
			"token of the strict account":      {strict, "Authorization", "Bearer " + token.secret, http.StatusForbidden},
			"token, second account":            {other, "Authorization", "Bearer " + token.secret, http.StatusForbidden},
			"no one":                           {own, "Cookie", "", http.StatusUnauthorized},
		} {
			equal(t, status(test.site, test.credential, test.value), test.want, "%s", name)
		}
	})
}

const (
	passkeySignInQuery = `{ passkeySignIn { challenge options } }`
)

// request is a PasskeyRequest at a path of an answer.
func request(got *answer, path string) (challenge, options string) {
	challenge, _ = got.at(path + ".challenge").(string)
	options, _ = got.at(path + ".options").(string)
	return challenge, options
}

// register creates a passkey, and returns its answer.
func (c *client) register(k *authenticator, name string) *answer {
	c.t.Helper()
	challenge, options := request(c.done("startPasskeyRegistration", "password", password), "startPasskeyRegistration.request")
	return c.do("finishPasskeyRegistration", "challenge", challenge, "credential", k.create(options), "name", name)
}

// passkeySignIn signs in with a passkey alone.
func (c *client) passkeySignIn(k *authenticator) *answer {
	c.t.Helper()
	challenge, options := request(c.query(passkeySignInQuery).ok(c.t, ""), "passkeySignIn")
	return c.do("signInWithPasskey", "challenge", challenge, "credential", k.get(options))
}

func TestPasskeys(t *testing.T) {
	const email = "owner@example.com"
	eachAppWith(t, localhost, func(t *testing.T, a *app) {
		owner, visitor := a.owner(email), a.client()
		k := newAuthenticator(t, a)

		// What a registration refuses.
		finish := func(c *client, challenge, credential, name string) string {
			t.Helper()
			return c.do("finishPasskeyRegistration", "challenge", challenge, "credential", credential, "name", name).userErrors("finishPasskeyRegistration")
		}
		start := func(c *client) (string, string) {
			t.Helper()
			return request(c.done("startPasskeyRegistration", "password", password), "startPasskeyRegistration.request")
		}
		owner.do("startPasskeyRegistration", "password", "wrong password").
			named("a wrong password").fails(t, "startPasskeyRegistration", "password:WRONG_CREDENTIALS")
		challenge, options := start(owner)
		elsewhere := *k
		elsewhere.origin = "http://evil.example"
		other := a.owner("second@example.com")
		foreign, _ := start(other)
		for what, got := range map[string]string{
			"another origin":           finish(owner, challenge, elsewhere.create(options), "Key"),
			"another user's challenge": finish(owner, foreign, k.create(options), "Key"),
			"no challenge":             finish(owner, "", k.create(options), "Key"),
			"an assertion":             finish(owner, challenge, k.get(options), "Key"),
			"no JSON":                  finish(owner, challenge, "{", "Key"),
		} {
			equal(t, got, "credential:INVALID_PASSKEY", "a registration with %s", what)
		}
		equal(t, finish(owner, challenge, k.create(options), " "), "name:INVALID_NAME", "a registration without a name")
		a.clock.Add(model.ChallengeLifetime)
		if got := finish(owner, challenge, k.create(options), "Key"); got != "credential:INVALID_PASSKEY" {
			t.Errorf("a registration that is too late: %q", got)
		}

		// The first passkey is the first second factor.
		challenge, options = start(owner)
		credential := k.create(options)
		got := owner.done("finishPasskeyRegistration", "challenge", challenge, "credential", credential, "name", " Laptop ")
		if codes, _ := got.at("finishPasskeyRegistration.recoveryCodes").([]any); len(codes) != 10 ||
			got.at("finishPasskeyRegistration.passkey.name") != "Laptop" {
			t.Errorf("the first passkey: %s", got.Body)
		}
		id := got.at("finishPasskeyRegistration.passkey.id").(string)
		equal(t, finish(owner, challenge, credential, "Key"), "credential:INVALID_PASSKEY", "the challenge again")
		challenge, options = start(owner)
		if !strings.Contains(options, webText.EncodeToString(k.id)) {
			t.Errorf("the options do not exclude the passkey: %s", options)
		}
		equal(t, finish(owner, challenge, k.create(options), "Key"), ":PASSKEY_EXISTS", "the passkey again")

		// As a second factor.
		ask := func() (string, string) {
			t.Helper()
			got := visitor.signIn2(email, "").ok(t, "signIn")
			got.named("the methods").prints(t, "signIn.secondFactorMethods", "[PASSKEY RECOVERY_CODE]")
			return request(got, "signIn.passkeyRequest")
		}
		answer := func(challenge, credential string) string {
			t.Helper()
			got := visitor.do("signIn", "email", email, "password", password, "passkey", map[string]any{"challenge": challenge, "credential": credential})
			if wrong := got.userErrors("signIn"); wrong != "" || visitor.viewer() == "" {
				equal(t, visitor.viewer(), "", "signed in: %s", got.Body)
				return wrong
			}
			visitor.signOut()
			return "signed in"
		}
		challenge, options = ask()
		assertion := k.get(options)
		equal(t, answer(challenge, assertion), "signed in", "the passkey as a second factor")
		const refused = "secondFactor:INVALID_SECOND_FACTOR"
		equal(t, answer(challenge, assertion), refused, "the same answer again")
		k.verify = false
		challenge, options = ask()
		equal(t, answer(challenge, k.get(options)), "signed in", "a passkey that does not verify its user, after the password")
		k.verify = true

		challenge, options = ask()
		elsewhere = *k
		elsewhere.origin = "http://evil.example"
		copied := *k
		copied.count = 1
		foreignKey := newAuthenticator(t, a)
		other.register(foreignKey, "Key").ok(t, "finishPasskeyRegistration")
		anyChallenge, anyOptions := request(visitor.query(passkeySignInQuery).ok(t, ""), "passkeySignIn")
		for i, wrong := range []struct{ what, challenge, credential string }{
			{"another origin", challenge, elsewhere.get(options)},
			{"a copy, whose counter is behind", challenge, copied.get(options)},
			{"another user's passkey", challenge, foreignKey.get(options)},
			{"an unknown passkey", challenge, newAuthenticator(t, a).get(options)},
			{"a challenge of another use", anyChallenge, k.get(anyOptions)},
			{"an answer to another challenge", challenge, k.get(anyOptions)},
		} {
			a.clock.Add(time.Duration(i*i) * time.Second)
			equal(t, answer(wrong.challenge, wrong.credential), refused, "%s", wrong.what)
		}
		a.clock.Add(20 * time.Minute)
		equal(t, answer(challenge, k.get(options)), refused, "an expired challenge")
		a.clock.Add(20 * time.Minute)

		// Instead of the password.
		visitor.passkeySignIn(k).ok(t, "signInWithPasskey").
			named("the passkey alone").has(t, "signInWithPasskey.viewer.email", email)
		equal(t, visitor.viewer(), email, "the passkey alone")
		visitor.signOut()
		challenge, options = request(visitor.query(passkeySignInQuery).ok(t, ""), "passkeySignIn")
		assertion = k.get(options)
		visitor.done("signInWithPasskey", "challenge", challenge, "credential", assertion)
		visitor.signOut()

		const no = "credential:INVALID_PASSKEY"
		alone := func(challenge, credential string) string {
			t.Helper()
			got := visitor.do("signInWithPasskey", "challenge", challenge, "credential", credential)
			equal(t, visitor.viewer(), "", "signed in: %s", got.Body)
			return got.userErrors("signInWithPasskey")
		}
		equal(t, alone(challenge, assertion), no, "the same answer again")
		challenge, options = request(visitor.query(passkeySignInQuery).ok(t, ""), "passkeySignIn")
		unverified, impostor, rp := *k, *k, *k
		unverified.verify = false
		impostor.handle = foreignKey.handle
		rp.rpID = "evil.example"
		elsewhere = *k
		elsewhere.origin = "http://evil.example"
		copied.count = 1
		for what, credential := range map[string]string{
			"no verification of the user": unverified.get(options), "another user's handle": impostor.get(options), "another relying party": rp.get(options),
			"another origin": elsewhere.get(options), "a counter that went back": copied.get(options),
			"an unknown passkey": newAuthenticator(t, a).get(options),
		} {
			equal(t, alone(challenge, credential), no, "alone, %s", what)
		}
		for i := range 30 {
			alone(challenge, fmt.Sprintf(`{"id":"%d"}`, i))
		}
		a.clock.Add(model.ChallengeLifetime)
		equal(t, alone(challenge, k.get(options)), no, "alone, an expired challenge")
		if n, err := accounts.New(a.db).DeleteExpiredSecrets(t.Context(), model.At(a.clock.Now())); err != nil || n == 0 {
			t.Errorf("housekeeping: %d, %v", n, err)
		}

		// Names, and the removal.
		owner.signOut()
		owner.passkeySignIn(k).ok(t, "signInWithPasskey")
		owner.done("renamePasskey", "passkeyId", id, "name", "Phone").
			named("renamed").has(t, "renamePasskey.passkey.name", "Phone")
		owner.query(`{ viewer { secondFactors { totpSince recoveryCodesLeft passkeys { name lastUsedAt } } } }`).ok(t, "").
			named("the passkeys").has(t, "viewer.secondFactors.passkeys.0.lastUsedAt", a.clock.Now().Format(time.RFC3339))
		owner.do("deletePasskey", "passkeyId", id, "password", "wrong password").
			named("a wrong password").fails(t, "deletePasskey", "password:WRONG_CREDENTIALS")
		owner.done("deletePasskey", "passkeyId", id, "password", password)
		visitor.passkeySignIn(k).named("a deleted passkey").fails(t, "signInWithPasskey", no)
		if visitor.signIn(email, password).ok(t, "signIn"); visitor.viewer() != email {
			t.Error("the password alone does not sign in after the removal")
		}
	})
}

// TestPasskeyGuessesAreDelayed: answers of unknown passkeys are counted by network.
func TestPasskeyGuessesAreDelayed(t *testing.T) {
	eachAppWith(t, localhost, func(t *testing.T, a *app) {
		a.owner("owner@example.com")
		visitor, k := a.client(), newAuthenticator(t, a)
		k.handle = webText.EncodeToString([]byte("unknown"))
		for i := range 30 {
			visitor.passkeySignIn(k).named("guess %d", i).fails(t, "signInWithPasskey", "credential:INVALID_PASSKEY")
		}
		visitor.passkeySignIn(k).named("one more").code(t, "RATE_LIMITED")
	})
}

// TestNoPasskeysWithoutAHostName: an installation under an IP address has none.
func TestNoPasskeysWithoutAHostName(t *testing.T) {
	eachOwner(t, func(t *testing.T, a *app, owner *client) {
		owner.query(passkeySignInQuery).ok(t, "").named("a request").has(t, "passkeySignIn", nil)
		owner.do("startPasskeyRegistration", "password", password).
			named("a registration").fails(t, "startPasskeyRegistration", ":PASSKEYS_UNAVAILABLE")
	})
}

// TestNewPasswords: new passwords have 10 bytes and are not among the most common ones. Shorter
// ones from before still sign in.
func TestNewPasswords(t *testing.T) {
	eachOwner(t, func(t *testing.T, a *app, owner *client) {
		for next, want := range map[string]string{
			"123456789": "password:INVALID_PASSWORD", "1234567890": "password:COMMON_PASSWORD", "QwertyUiop": "password:COMMON_PASSWORD",
			strings.Repeat("x", 1025): "password:INVALID_PASSWORD",
		} {
			owner.do("changePassword", "currentPassword", password, "password", next).
				named("%.20q", next).fails(t, "changePassword", want)
			a.client().query(signUpMutation, "email", "new@example.com", "password", next, "name", "New").
				named("sign-up with %.20q", next).fails(t, "signUp", want)
		}

		short := "eightch8"
		setHash(t, a.db, "owner@example.com", short)
		a.client().signIn("owner@example.com", short).ok(t, "signIn").
			named("a short password from before").has(t, "signIn.viewer.email", "owner@example.com")
		owner.done("changePassword", "currentPassword", short, "password", "a new password")
	})
}
