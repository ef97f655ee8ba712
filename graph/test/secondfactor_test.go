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

	"github.com/tallygate/tallygate/db"
	"github.com/tallygate/tallygate/db/accounts"
	"github.com/tallygate/tallygate/db/model"
	"github.com/tallygate/tallygate/graph/export"
	"github.com/tallygate/tallygate/tools/dbtest"
)

const (
	startTOTPMutation   = `mutation($password: String!) { startTotp(input: {password: $password}) { secret uri qrCode { size path } userErrors { field code } } }`
	confirmTOTPMutation = `mutation($code: String!) { confirmTotp(input: {code: $code}) { viewer { hasSecondFactor } recoveryCodes userErrors { field code } } }`
	disableTOTPMutation = `mutation($password: String!) { disableTotp(input: {password: $password}) { viewer { hasSecondFactor } userErrors { field code } } }`
	renewCodesMutation  = `mutation($password: String!) { renewRecoveryCodes(input: {password: $password}) { recoveryCodes userErrors { field code } } }`
	signInMutation2     = `mutation($email: String!, $password: String!, $code: String, $passkey: PasskeyAnswerInput) {
		signIn(input: {email: $email, password: $password, secondFactor: $code, passkey: $passkey}) {
			viewer { email } secondFactorMethods passkeyRequest { challenge options } userErrors { field code } } }`
	securityMutation = `mutation($password: String!, $require: Boolean!) {
		setAccountSecurity(input: {password: $password, requireSecondFactor: $require}) { account { requireSecondFactor } userErrors { field code } } }`
)

// signIn2 signs in with a code; "" for none.
func (c *client) signIn2(email, code string) *answer {
	c.t.Helper()
	return c.query(signInMutation2, "email", email, "password", password, "code", code)
}

// code returns the code of an authenticator app at the clock's time.
func (a *app) code(secret string) string {
	a.t.Helper()
	code, err := totp.GenerateCode(secret, a.clock.Now())
	if err != nil {
		a.t.Fatal(err)
	}
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
	secret = c.query(startTOTPMutation, "password", password).ok(c.t, "startTotp").at("startTotp.secret").(string)
	confirmed := c.query(confirmTOTPMutation, "code", c.app.code(secret)).ok(c.t, "confirmTotp")
	for _, code := range confirmed.at("confirmTotp.recoveryCodes").([]any) {
		codes = append(codes, code.(string))
	}
	return secret, codes
}

// mailsOf returns the data of the mails of a kind.
func (a *app) mailsOf(kind string) []string {
	a.t.Helper()
	type row struct{ Data string }
	rows, err := dbtest.Rows[row](a.db, "SELECT data FROM mails WHERE kind = ? ORDER BY id", kind)
	if err != nil {
		a.t.Fatal(err)
	}

	var data []string
	for _, row := range rows {
		data = append(data, row.Data)
	}
	return data
}

func TestTOTP(t *testing.T) {
	t.Parallel()
	const email = "owner@example.com"
	dbtest.Each(t, func(t *testing.T, d *db.DB) {
		a := newApp(t, d)
		laptop := a.owner(email)
		other := a.client()
		other.signIn(email, password).ok(t, "signIn")

		// Nothing is in use before the first code.
		if got := laptop.query(confirmTOTPMutation, "code", "123456"); got.userErrors("confirmTotp") != ":SETUP_EXPIRED" {
			t.Errorf("a code without a setup: %s", got.Body)
		}
		if got := laptop.query(startTOTPMutation, "password", "wrong password"); got.userErrors("startTotp") != "password:WRONG_CREDENTIALS" || got.at("startTotp.secret") != nil {
			t.Errorf("a wrong password: %s", got.Body)
		}

		setup := laptop.query(startTOTPMutation, "password", password).ok(t, "startTotp")
		abandoned := setup.at("startTotp.secret").(string)
		if uri := setup.at("startTotp.uri").(string); !strings.HasPrefix(uri, "otpauth://totp/Tallygate%20127.0.0.1:owner@example.com?") || !strings.Contains(uri, abandoned) {
			t.Errorf("the URI is %s", uri)
		}
		if size := setup.at("startTotp.qrCode.size").(float64); size < 21 || !strings.HasPrefix(setup.at("startTotp.qrCode.path").(string), "M0 0h7v1h-7z") {
			t.Errorf("the QR code has %v modules: %s", size, setup.at("startTotp.qrCode.path"))
		}

		a.clock.Add(model.TOTPSetupLifetime)
		if got := laptop.query(confirmTOTPMutation, "code", a.code(abandoned)); got.userErrors("confirmTotp") != ":SETUP_EXPIRED" {
			t.Errorf("a setup that is too old: %s", got.Body)
		}
		if n, err := accounts.New(d).DeleteExpiredSecrets(t.Context(), model.At(a.clock.Now())); err != nil || n != 1 {
			t.Errorf("housekeeping: %d, %v", n, err)
		}

		secret := laptop.query(startTOTPMutation, "password", password).ok(t, "startTotp").at("startTotp.secret").(string)
		for _, wrong := range []string{"", "12345", "1234567", "abcdef", a.code(abandoned)} {
			if got := laptop.query(confirmTOTPMutation, "code", wrong); got.userErrors("confirmTotp") != "code:INVALID_SECOND_FACTOR" {
				t.Errorf("the first code %q: %s", wrong, got.Body)
			}
		}
		other.signIn(email, password).ok(t, "signIn")

		first := a.code(secret)
		confirmed := laptop.query(confirmTOTPMutation, "code", first[:3]+" "+first[3:]).ok(t, "confirmTotp")
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
		rows, rowsErr := dbtest.Rows[[]byte](d, "SELECT secret FROM totp_secrets")
		if err != nil || rowsErr != nil || len(rows) != 1 || bytes.Contains(rows[0], raw) {
			t.Errorf("stored secrets: %d, %v, %v", len(rows), err, rowsErr)
		}

		// The password alone starts no session.
		got := other.signIn(email, password).ok(t, "signIn")
		if got.at("signIn.viewer") != nil || other.viewer() != "" {
			t.Errorf("the password alone: %s", got.Body)
		}
		if got := other.signIn2(email, "").ok(t, "signIn"); fmt.Sprint(got.at("signIn.secondFactorMethods")) != "[TOTP RECOVERY_CODE]" || got.at("signIn.passkeyRequest") != nil {
			t.Errorf("a missing second factor: %s", got.Body)
		}

		// The code of the setup has been used. A code counts once, for its own period and its
		// neighbours.
		refused := func(what, code string) {
			t.Helper()
			if got := other.signIn2(email, code); got.userErrors("signIn") != "secondFactor:INVALID_SECOND_FACTOR" || other.viewer() != "" {
				t.Errorf("%s: %s", what, got.Body)
			}
		}
		refused("the code of the setup", first)
		next := a.nextCode(secret)
		a.clock.Add(model.TOTPPeriod)
		if got := other.signIn2(email, next).ok(t, "signIn"); got.at("signIn.viewer.email") != email {
			t.Errorf("the code of the period before: %s", got.Body)
		}
		other.signOut()
		refused("a code again", next)
		refused("an unknown recovery code", model.NewRecoveryCodes()[0])
		early, err := totp.GenerateCode(secret, a.clock.Now().Add(model.TOTPPeriod))
		if err != nil {
			t.Fatal(err)
		}
		other.signIn2(email, early).ok(t, "signIn")
		other.signOut()
		refused("a code older than the last one", a.code(secret))
		a.clock.Add(3 * model.TOTPPeriod)
		refused("an old code", early)

		// A recovery code works once, however it is typed.
		code := codes[0].(string)
		other.signIn2(email, strings.ToUpper(strings.ReplaceAll(code, "-", " "))).ok(t, "signIn")
		if other.viewer() == "" {
			t.Error("a recovery code does not sign in")
		}
		other.signOut()
		refused("a recovery code again", code)
		if mails := a.mailsOf(model.MailRecoveryCode); len(mails) != 1 || !strings.Contains(mails[0], `"left":9`) {
			t.Errorf("mails about recovery codes: %v", mails)
		}

		// New recovery codes replace the old ones.
		a.clock.Add(time.Hour)
		renewed := laptop.query(renewCodesMutation, "password", password).ok(t, "renewRecoveryCodes").at("renewRecoveryCodes.recoveryCodes").([]any)
		refused("a replaced recovery code", codes[1].(string))
		other.signIn2(email, renewed[9].(string)).ok(t, "signIn")

		// A new phone: the old app works until the new one is confirmed, and then no more.
		replaced := laptop.query(startTOTPMutation, "password", password).ok(t, "startTotp").at("startTotp.secret").(string)
		other.signIn2(email, a.nextCode(secret)).ok(t, "signIn")
		if got := laptop.query(confirmTOTPMutation, "code", a.nextCode(replaced)).ok(t, "confirmTotp"); fmt.Sprint(got.at("confirmTotp.recoveryCodes")) != "[]" || other.viewer() == "" {
			t.Errorf("a new app: %s", got.Body)
		}
		other.signOut()
		refused("the code of the old app", a.nextCode(secret))

		// Removal needs the password, and asks for no second factor afterwards.
		if got := laptop.query(disableTOTPMutation, "password", "wrong password"); got.userErrors("disableTotp") != "password:WRONG_CREDENTIALS" {
			t.Errorf("a wrong password: %s", got.Body)
		}
		if got := laptop.query(disableTOTPMutation, "password", password).ok(t, "disableTotp"); got.at("disableTotp.viewer.hasSecondFactor") != false {
			t.Errorf("disabled: %s", got.Body)
		}
		if got := laptop.query(disableTOTPMutation, "password", password); got.userErrors("disableTotp") != ":NO_SECOND_FACTOR" {
			t.Errorf("disabled again: %s", got.Body)
		}
		if got := laptop.query(renewCodesMutation, "password", password); got.userErrors("renewRecoveryCodes") != ":NO_SECOND_FACTOR" {
			t.Errorf("codes without a second factor: %s", got.Body)
		}
		if got := other.signIn(email, password).ok(t, "signIn"); got.at("signIn.viewer.email") != email {
			t.Errorf("the password alone, again: %s", got.Body)
		}
		if rows, err := dbtest.Rows[int](d, "SELECT count(*) FROM recovery_codes"); err != nil || rows[0] != 0 {
			t.Errorf("%v recovery codes are left, %v", rows, err)
		}
		if mails := a.mailsOf(model.MailSecondFactor); len(mails) != 3 || !strings.Contains(mails[0], `"added":true`) || strings.Contains(mails[2], "added") {
			t.Errorf("mails about second factors: %v", mails)
		}
	})
}

// TestSecondFactorIsNotGuessed: wrong codes are counted for the user, over all networks and also in
// parallel, and only callers with the right password raise that counter.
func TestSecondFactorIsNotGuessed(t *testing.T) {
	t.Parallel()
	const email = "owner@example.com"
	dbtest.Each(t, func(t *testing.T, d *db.DB) {
		a := newApp(t, d)
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
		if n != 5 {
			t.Errorf("%d of 12 guesses were checked, want 5", n)
		}

		// The right code waits as well, from an unknown device, and the owner's browser does not.
		visitor := a.client()
		visitor.address = "198.51.100.9"
		if got := visitor.signIn2(email, codes[0]); got.codes() != "RATE_LIMITED" {
			t.Errorf("a right code during the wait: %s", got.Body)
		}
		owner.signOut()
		owner.signIn2(email, a.nextCode(secret)).ok(t, "signIn")

		a.clock.Add(time.Minute)
		visitor.signIn2(email, codes[0]).ok(t, "signIn")
		if visitor.viewer() == "" {
			t.Error("the right code after the wait does not sign in")
		}
	})
}

// TestPasswordChangesKeepSecondFactors: neither a reset by mail nor a change removes a second
// factor or signs in without it.
func TestPasswordChangesKeepSecondFactors(t *testing.T) {
	t.Parallel()
	const email, next = "owner@example.com", "a new password"
	dbtest.Each(t, func(t *testing.T, d *db.DB) {
		a := newApp(t, d)
		owner := a.owner(email)
		secret, _ := owner.enableTOTP()

		owner.query(changePasswordMutation, "current", password, "password", next).ok(t, "changePassword")
		if owner.viewer() == "" {
			t.Error("the session ended with the change")
		}

		thief := a.client()
		thief.query(requestResetMutation, "email", email).ok(t, "requestPasswordReset")
		thief.query(resetMutation, "token", a.mailedSecret(email), "password", password).ok(t, "resetPassword")
		if got := thief.signIn2(email, "").ok(t, "signIn"); got.at("signIn.viewer") != nil || thief.viewer() != "" {
			t.Errorf("after a reset: %s", got.Body)
		}
		thief.signIn2(email, a.nextCode(secret)).ok(t, "signIn")
		if thief.viewer() == "" {
			t.Error("the code does not sign in after the reset")
		}
	})
}

// TestRequiredSecondFactor: a member without the second factor that the account requires can call
// only what sets one up.
func TestRequiredSecondFactor(t *testing.T) {
	t.Parallel()
	// What such a member may call, and what needs no account at all.
	open := []string{
		"viewer", "installation", "passkeySignIn", "signOut", "startTotp", "confirmTotp", "disableTotp", "renewRecoveryCodes",
		"startPasskeyRegistration", "finishPasskeyRegistration", "renamePasskey", "deletePasskey", "leaveAccount",
		"signUp", "confirmSignUp", "signIn", "startProviderSignIn", "finishProviderSignIn", "signInWithPasskey", "requestPasswordReset", "resetPassword", "acceptInvitation", "invitationOffer", "openSharedLink",
		"stopAlertMails", "confirmEmailChange", "confirmAlertChannel",
	}
	dbtest.Each(t, func(t *testing.T, d *db.DB) {
		a := newApp(t, d, func(s *settings) { s.graph.CostPerMinute = 1 << 30 })
		owner := a.owner("owner@example.com")
		site := owner.siteOf("first.example")
		member := a.join(owner, "member@example.com", model.RoleMember)
		token := member.createToken("READ", "WRITE", "EXPORT")

		require := func(c *client, on bool) *answer {
			return c.query(securityMutation, "password", password, "require", on)
		}
		if got := require(owner, true); got.userErrors("setAccountSecurity") != ":NO_SECOND_FACTOR" {
			t.Errorf("an owner without a second factor: %s", got.Body)
		}
		secret, _ := owner.enableTOTP()
		if got := require(owner, true).ok(t, "setAccountSecurity"); got.at("setAccountSecurity.account.requireSecondFactor") != true {
			t.Errorf("required: %s", got.Body)
		}
		if got := require(member, false); got.codes() != "FORBIDDEN" {
			t.Errorf("a member: %s", got.Body)
		}

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
				if got.codes() != want {
					t.Errorf("%s: %s, want %s", f.Name, got.Body, want)
				}
			}
		}
		for query, want := range map[string]string{
			`{ viewer { email role hasSecondFactor account { id name requireSecondFactor createdAt } } }`: "",
			`{ viewer { account { sites { edges { node { domain } } } } } }`:                              "SECOND_FACTOR_REQUIRED",
			`{ viewer { account { name other: members { email } } } }`:                                    "SECOND_FACTOR_REQUIRED",
			`{ viewer { account { captchaPlan } } }`:                                                      "SECOND_FACTOR_REQUIRED",
		} {
			if got := member.query(query); got.codes() != want {
				t.Errorf("%s: %s", query, got.Body)
			}
		}
		for _, query := range []string{`{ sites { totalCount } }`, `{ viewer { email } }`, `{ node(id: "` + site + `") { id } }`} {
			if got := a.with(token.secret, query); got.codes() != "SECOND_FACTOR_REQUIRED" {
				t.Errorf("with the member's token, %s: %s", query, got.Body)
			}
		}

		r, err := http.NewRequest(http.MethodGet, a.url, nil)
		if err != nil {
			t.Fatal(err)
		}
		r.Header.Set("Authorization", "Bearer "+token.secret)
		if _, err := a.auth.Downloader(r); model.KindOf(err) != model.Forbidden {
			t.Errorf("a download: %v", err)
		}

		// The owner is not barred, and cannot remove the last second factor.
		owner.query(`{ sites { totalCount } }`).ok(t, "")
		if got := owner.query(disableTOTPMutation, "password", password); got.userErrors("disableTotp") != ":SECOND_FACTOR_NEEDED" {
			t.Errorf("the last second factor: %s", got.Body)
		}

		// A new member joins, and is barred as well; with a second factor every field opens.
		owner.signIn2("owner@example.com", a.nextCode(secret)).ok(t, "signIn")
		late := a.join(owner, "late@example.com", model.RoleViewer)
		if got := late.query(`{ sites { totalCount } }`); got.codes() != "SECOND_FACTOR_REQUIRED" {
			t.Errorf("a new member: %s", got.Body)
		}
		member.enableTOTP()
		member.query(`{ sites { totalCount } viewer { account { members { email } } } }`).ok(t, "")
		a.with(token.secret, `{ sites { totalCount } }`).ok(t, "")

		require(owner, false).ok(t, "setAccountSecurity")
		late.query(`{ sites { totalCount } }`).ok(t, "")
		owner.query(disableTOTPMutation, "password", password).ok(t, "disableTotp")
	})
}

// TestDownloadInAnotherAccount: a person who lacks the second factor that one account requires can
// download rows of another one, whichever is the default account.
func TestDownloadInAnotherAccount(t *testing.T) {
	t.Parallel()
	dbtest.Each(t, func(t *testing.T, d *db.DB) {
		a := newApp(t, d)
		owner, person := a.owner("owner@example.com"), a.owner("person@example.com")
		strict, own := owner.siteOf("strict.example"), person.siteOf("own.example")
		handler := export.Handler(export.Options{DB: d, User: a.auth.Downloader, Log: slog.New(slog.DiscardHandler)})

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
		second := member.query(createAccountMutation, "name", "Second").ok(t, "createAccount").at("createAccount.account.id")
		created := member.query(`mutation($id: ID!) { createSite(input: {accountId: $id, domain: "second.example"}) { site { id } userErrors { code } } }`, "id", second)
		other := created.ok(t, "createSite").at("createSite.site.id").(string)
		person.query(joinMutation, "token", a.invite(owner, "person@example.com", model.RoleViewer)).ok(t, "acceptInvitation")
		token := member.createToken("EXPORT")

		owner.enableTOTP()
		owner.query(securityMutation, "password", password, "require", true).ok(t, "setAccountSecurity")

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
			if got := status(test.site, test.credential, test.value); got != test.want {
				t.Errorf("%s: status %d, want %d", name, got, test.want)
			}
		}
	})
}

const (
	startPasskeyMutation  = `mutation($password: String!) { startPasskeyRegistration(input: {password: $password}) { request { challenge options } userErrors { field code } } }`
	finishPasskeyMutation = `mutation($challenge: String!, $credential: String!, $name: String!) {
		finishPasskeyRegistration(input: {challenge: $challenge, credential: $credential, name: $name}) { passkey { id name lastUsedAt } recoveryCodes userErrors { field code } } }`
	passkeySignInQuery    = `{ passkeySignIn { challenge options } }`
	passkeySignInMutation = `mutation($challenge: String!, $credential: String!) { signInWithPasskey(input: {challenge: $challenge, credential: $credential}) { viewer { email } userErrors { field code } } }`
	deletePasskeyMutation = `mutation($id: ID!, $password: String!) { deletePasskey(input: {passkeyId: $id, password: $password}) { passkey { name } userErrors { field code } } }`
	renamePasskeyMutation = `mutation($id: ID!, $name: String!) { renamePasskey(input: {passkeyId: $id, name: $name}) { passkey { name } userErrors { field code } } }`
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
	challenge, options := request(c.query(startPasskeyMutation, "password", password).ok(c.t, "startPasskeyRegistration"), "startPasskeyRegistration.request")
	return c.query(finishPasskeyMutation, "challenge", challenge, "credential", k.create(options), "name", name)
}

// passkeySignIn signs in with a passkey alone.
func (c *client) passkeySignIn(k *authenticator) *answer {
	c.t.Helper()
	challenge, options := request(c.query(passkeySignInQuery).ok(c.t, ""), "passkeySignIn")
	return c.query(passkeySignInMutation, "challenge", challenge, "credential", k.get(options))
}

func TestPasskeys(t *testing.T) {
	t.Parallel()
	const email = "owner@example.com"
	dbtest.Each(t, func(t *testing.T, d *db.DB) {
		a := newApp(t, d, localhost)
		owner, visitor := a.owner(email), a.client()
		k := newAuthenticator(t, a)

		// What a registration refuses.
		finish := func(c *client, challenge, credential, name string) string {
			t.Helper()
			return c.query(finishPasskeyMutation, "challenge", challenge, "credential", credential, "name", name).userErrors("finishPasskeyRegistration")
		}
		start := func(c *client) (string, string) {
			t.Helper()
			return request(c.query(startPasskeyMutation, "password", password).ok(t, "startPasskeyRegistration"), "startPasskeyRegistration.request")
		}
		if got := owner.query(startPasskeyMutation, "password", "wrong password"); got.userErrors("startPasskeyRegistration") != "password:WRONG_CREDENTIALS" {
			t.Errorf("a wrong password: %s", got.Body)
		}
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
			if got != "credential:INVALID_PASSKEY" {
				t.Errorf("a registration with %s: %q", what, got)
			}
		}
		if got := finish(owner, challenge, k.create(options), " "); got != "name:INVALID_NAME" {
			t.Errorf("a registration without a name: %q", got)
		}
		a.clock.Add(model.ChallengeLifetime)
		if got := finish(owner, challenge, k.create(options), "Key"); got != "credential:INVALID_PASSKEY" {
			t.Errorf("a registration that is too late: %q", got)
		}

		// The first passkey is the first second factor.
		challenge, options = start(owner)
		credential := k.create(options)
		got := owner.query(finishPasskeyMutation, "challenge", challenge, "credential", credential, "name", " Laptop ").ok(t, "finishPasskeyRegistration")
		if codes, _ := got.at("finishPasskeyRegistration.recoveryCodes").([]any); len(codes) != 10 || got.at("finishPasskeyRegistration.passkey.name") != "Laptop" {
			t.Errorf("the first passkey: %s", got.Body)
		}
		id := got.at("finishPasskeyRegistration.passkey.id").(string)
		if got := finish(owner, challenge, credential, "Key"); got != "credential:INVALID_PASSKEY" {
			t.Errorf("the challenge again: %q", got)
		}
		challenge, options = start(owner)
		if !strings.Contains(options, webText.EncodeToString(k.id)) {
			t.Errorf("the options do not exclude the passkey: %s", options)
		}
		if got := finish(owner, challenge, k.create(options), "Key"); got != ":PASSKEY_EXISTS" {
			t.Errorf("the passkey again: %q", got)
		}

		// As a second factor.
		ask := func() (string, string) {
			t.Helper()
			got := visitor.signIn2(email, "").ok(t, "signIn")
			if fmt.Sprint(got.at("signIn.secondFactorMethods")) != "[PASSKEY RECOVERY_CODE]" {
				t.Fatalf("the methods: %s", got.Body)
			}
			return request(got, "signIn.passkeyRequest")
		}
		answer := func(challenge, credential string) string {
			t.Helper()
			got := visitor.query(signInMutation2, "email", email, "password", password, "passkey", map[string]any{"challenge": challenge, "credential": credential})
			if wrong := got.userErrors("signIn"); wrong != "" || visitor.viewer() == "" {
				if visitor.viewer() != "" {
					t.Errorf("signed in: %s", got.Body)
				}
				return wrong
			}
			visitor.signOut()
			return "signed in"
		}
		challenge, options = ask()
		assertion := k.get(options)
		if got := answer(challenge, assertion); got != "signed in" {
			t.Fatalf("the passkey as a second factor: %q", got)
		}
		const refused = "secondFactor:INVALID_SECOND_FACTOR"
		if got := answer(challenge, assertion); got != refused {
			t.Errorf("the same answer again: %q", got)
		}
		k.verify = false
		challenge, options = ask()
		if got := answer(challenge, k.get(options)); got != "signed in" {
			t.Errorf("a passkey that does not verify its user, after the password: %q", got)
		}
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
			if got := answer(wrong.challenge, wrong.credential); got != refused {
				t.Errorf("%s: %q", wrong.what, got)
			}
		}
		a.clock.Add(20 * time.Minute)
		if got := answer(challenge, k.get(options)); got != refused {
			t.Errorf("an expired challenge: %q", got)
		}
		a.clock.Add(20 * time.Minute)

		// Instead of the password.
		if got := visitor.passkeySignIn(k).ok(t, "signInWithPasskey"); got.at("signInWithPasskey.viewer.email") != email || visitor.viewer() != email {
			t.Errorf("the passkey alone: %s", got.Body)
		}
		visitor.signOut()
		challenge, options = request(visitor.query(passkeySignInQuery).ok(t, ""), "passkeySignIn")
		assertion = k.get(options)
		visitor.query(passkeySignInMutation, "challenge", challenge, "credential", assertion).ok(t, "signInWithPasskey")
		visitor.signOut()

		const no = "credential:INVALID_PASSKEY"
		alone := func(challenge, credential string) string {
			t.Helper()
			got := visitor.query(passkeySignInMutation, "challenge", challenge, "credential", credential)
			if visitor.viewer() != "" {
				t.Errorf("signed in: %s", got.Body)
			}
			return got.userErrors("signInWithPasskey")
		}
		if got := alone(challenge, assertion); got != no {
			t.Errorf("the same answer again: %q", got)
		}
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
			"another origin": elsewhere.get(options), "a counter that went back": copied.get(options), "an unknown passkey": newAuthenticator(t, a).get(options),
		} {
			if got := alone(challenge, credential); got != no {
				t.Errorf("alone, %s: %q", what, got)
			}
		}
		for i := range 30 {
			alone(challenge, fmt.Sprintf(`{"id":"%d"}`, i))
		}
		a.clock.Add(model.ChallengeLifetime)
		if got := alone(challenge, k.get(options)); got != no {
			t.Errorf("alone, an expired challenge: %q", got)
		}
		if n, err := accounts.New(d).DeleteExpiredSecrets(t.Context(), model.At(a.clock.Now())); err != nil || n == 0 {
			t.Errorf("housekeeping: %d, %v", n, err)
		}

		// Names, and the removal.
		owner.signOut()
		owner.passkeySignIn(k).ok(t, "signInWithPasskey")
		if got := owner.query(renamePasskeyMutation, "id", id, "name", "Phone").ok(t, "renamePasskey"); got.at("renamePasskey.passkey.name") != "Phone" {
			t.Errorf("renamed: %s", got.Body)
		}
		if got := owner.query(`{ viewer { secondFactors { totpSince recoveryCodesLeft passkeys { name lastUsedAt } } } }`).ok(t, ""); got.at("viewer.secondFactors.passkeys.0.lastUsedAt") != a.clock.Now().Format(time.RFC3339) {
			t.Errorf("the passkeys: %s", got.Body)
		}
		if got := owner.query(deletePasskeyMutation, "id", id, "password", "wrong password"); got.userErrors("deletePasskey") != "password:WRONG_CREDENTIALS" {
			t.Errorf("a wrong password: %s", got.Body)
		}
		owner.query(deletePasskeyMutation, "id", id, "password", password).ok(t, "deletePasskey")
		if got := visitor.passkeySignIn(k); got.userErrors("signInWithPasskey") != no {
			t.Errorf("a deleted passkey: %s", got.Body)
		}
		if visitor.signIn(email, password).ok(t, "signIn"); visitor.viewer() != email {
			t.Error("the password alone does not sign in after the removal")
		}
	})
}

// TestPasskeyGuessesAreDelayed: answers of unknown passkeys are counted by network.
func TestPasskeyGuessesAreDelayed(t *testing.T) {
	t.Parallel()
	dbtest.Each(t, func(t *testing.T, d *db.DB) {
		a := newApp(t, d, localhost)
		a.owner("owner@example.com")
		visitor, k := a.client(), newAuthenticator(t, a)
		k.handle = webText.EncodeToString([]byte("unknown"))
		for i := range 30 {
			if got := visitor.passkeySignIn(k); got.userErrors("signInWithPasskey") != "credential:INVALID_PASSKEY" {
				t.Fatalf("guess %d: %s", i, got.Body)
			}
		}
		if got := visitor.passkeySignIn(k); got.codes() != "RATE_LIMITED" {
			t.Errorf("one more: %s", got.Body)
		}
	})
}

// TestNoPasskeysWithoutAHostName: an installation under an IP address has none.
func TestNoPasskeysWithoutAHostName(t *testing.T) {
	t.Parallel()
	dbtest.Each(t, func(t *testing.T, d *db.DB) {
		a := newApp(t, d)
		owner := a.owner("owner@example.com")
		if got := owner.query(passkeySignInQuery).ok(t, ""); got.at("passkeySignIn") != nil {
			t.Errorf("a request: %s", got.Body)
		}
		if got := owner.query(startPasskeyMutation, "password", password); got.userErrors("startPasskeyRegistration") != ":PASSKEYS_UNAVAILABLE" {
			t.Errorf("a registration: %s", got.Body)
		}
	})
}

// TestNewPasswords: new passwords have 10 bytes and are not among the most common ones. Shorter
// ones from before still sign in.
func TestNewPasswords(t *testing.T) {
	t.Parallel()
	dbtest.Each(t, func(t *testing.T, d *db.DB) {
		a := newApp(t, d)
		owner := a.owner("owner@example.com")
		for next, want := range map[string]string{
			"123456789": "password:INVALID_PASSWORD", "1234567890": "password:COMMON_PASSWORD", "QwertyUiop": "password:COMMON_PASSWORD",
			strings.Repeat("x", 1025): "password:INVALID_PASSWORD",
		} {
			if got := owner.query(changePasswordMutation, "current", password, "password", next); got.userErrors("changePassword") != want {
				t.Errorf("%.20q: %s", next, got.Body)
			}
			if got := a.client().query(signUpMutation, "email", "new@example.com", "password", next, "name", "New"); got.userErrors("signUp") != want {
				t.Errorf("sign-up with %.20q: %s", next, got.Body)
			}
		}

		short := "eightch8"
		setHash(t, d, "owner@example.com", short)
		if got := a.client().signIn("owner@example.com", short).ok(t, "signIn"); got.at("signIn.viewer.email") != "owner@example.com" {
			t.Errorf("a short password from before: %s", got.Body)
		}
		owner.query(changePasswordMutation, "current", short, "password", "a new password").ok(t, "changePassword")
	})
}
