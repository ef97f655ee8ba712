package planetest

import (
	"encoding/json"
	"net/http"
	"net/netip"
	"sync/atomic"

	"github.com/tallygate/tallygate/dataplane/captcha/pow"
	"github.com/tallygate/tallygate/db/accounts"
	"github.com/tallygate/tallygate/db/model"
	"github.com/tallygate/tallygate/tools/testkit"
	"github.com/tallygate/tallygate/tools/world"
)

// Paths of the captcha's endpoints.
const (
	ConfigPath     = "/api/v1/pow/config"
	VerifyPath     = "/api/v1/pow/verify"
	SiteverifyPath = "/api/v1/pow/siteverify"
	CompatPath     = "/siteverify"
)

// FormType is the content type of calls of CompatPath.
const FormType = "application/x-www-form-urlencoded"

// TestSitekey is the pair of test credentials.
var TestSitekey = world.Sitekey{Sitekey: &model.Sitekey{Sitekey: model.TestSitekey}, Secret: model.TestSitekeySecret}

var clients atomic.Uint32

// NextClient returns an address in a network that no request has used before.
func NextClient() string {
	n := clients.Add(1)
	return netip.AddrFrom4([4]byte{10, byte(n >> 8), byte(n), 1}).String()
}

// Challenge requests a challenge from a new client, so that the difficulty does not rise.
func (p *Plane) Challenge(key world.Sitekey, origin string) (c pow.Challenge) {
	p.TB.Helper()
	body := p.answered(Call{Path: ConfigPath, Body: map[string]string{"sitekey": key.Sitekey.Sitekey}, Origin: origin, Client: NextClient()})
	if err := json.Unmarshal([]byte(body), &c); err != nil {
		p.TB.Fatalf("config: %s, %v", body, err)
	}
	return c
}

// Solved returns the body of a verify call with a solved challenge.
func (p *Plane) Solved(key world.Sitekey, origin string) map[string]any {
	p.TB.Helper()
	c := p.Challenge(key, origin)
	nonce, err := pow.Solve(c)
	testkit.NoError(p.TB, err)
	return map[string]any{"sitekey": key.Sitekey.Sitekey, "challenge": c.Challenge, "nonce": nonce}
}

// Token returns a new token, as the widget gets it.
func (p *Plane) Token(key world.Sitekey, origin string) string {
	p.TB.Helper()
	body := p.answered(Call{Path: VerifyPath, Body: p.Solved(key, origin), Origin: origin})
	var answer struct{ Token string }
	if err := json.Unmarshal([]byte(body), &answer); err != nil || answer.Token == "" {
		p.TB.Fatalf("verify: %s, %v", body, err)
	}
	return answer.Token
}

// Siteverify redeems a token at the native endpoint and returns the answer as text.
func (p *Plane) Siteverify(key world.Sitekey, token string) string {
	p.TB.Helper()
	return p.answered(Call{Path: SiteverifyPath,
		Body: map[string]string{"sitekey": key.Sitekey.Sitekey, "secret": key.Secret, "token": token}})
}

// Compat redeems a token at the compatible endpoint and returns the answer as text.
func (p *Plane) Compat(key world.Sitekey, token string) string {
	p.TB.Helper()
	return p.answered(Call{Path: CompatPath, Type: FormType, Body: "secret=" + key.Secret + "&response=" + token})
}

// answered sends a call, which must be answered with 200, and returns the body.
func (p *Plane) answered(c Call) string {
	p.TB.Helper()
	response, body := p.Send(c)
	if response.StatusCode != http.StatusOK {
		p.TB.Fatalf("%s: %d %s", c.Path, response.StatusCode, body)
	}
	return body
}

// CaptchaUsage returns the usage of an account in the month of the clock.
func (p *Plane) CaptchaUsage(accountID model.AccountID) model.CaptchaUsage {
	p.TB.Helper()
	usage, err := accounts.New(p.DB).CaptchaUsage(p.TB.Context(), accountID, p.Now().Month())
	testkit.NoError(p.TB, err)
	return *usage
}
