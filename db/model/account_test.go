package model_test

import (
	"strings"
	"testing"

	"github.com/tallygate/tallygate/db/model"
	"github.com/tallygate/tallygate/tools/testkit"
)

func TestSignupPolicyNames(t *testing.T) {
	for _, name := range []string{"open", "closed", "first-only"} {
		var p model.SignupPolicy
		if err := p.UnmarshalFlag(name); err != nil || p.String() != name {
			t.Errorf("%s is read as %s, error %v", name, p, err)
		}
		if text, err := p.MarshalText(); err != nil || string(text) != name {
			t.Errorf("%s is written as %s, error %v", name, text, err)
		}
	}

	p := model.SignupsOpen
	if err := p.UnmarshalFlag("Open"); err == nil || p != model.SignupsOpen {
		t.Errorf("a wrong name: %s, error %v", p, err)
	}

	var zero model.SignupPolicy
	testkit.Equal(t, zero, model.SignupsClosed, "the zero policy")
}

// TestMay also checks that an unknown permission is refused, by session and by token.
func TestMay(t *testing.T) {
	everything := &model.APIToken{Scopes: []model.Scope{model.ScopeRead, model.ScopeWrite, model.ScopeExport}}
	owner := &model.User{Role: model.RoleOwner, Operator: true}
	for p, byToken := range map[model.Permission]bool{
		model.MayRead: true, model.MayExport: true, model.MayConfigure: true, model.MaySendOut: true, model.MayErase: false,
		model.MayManage: false, model.MayPersonal: false, model.MayOperate: false,
	} {
		if !owner.May(p, nil) || owner.May(p, everything) != byToken {
			t.Errorf("permission %d: %v by session, %v by token", p, owner.May(p, nil), owner.May(p, everything))
		}
	}

	if owner.May(200, nil) || owner.May(200, everything) || (&model.User{}).May(model.MayConfigure, nil) ||
		(&model.User{Role: "ADMIN"}).May(model.MayManage, nil) {
		t.Error("an unknown permission is allowed")
	}

	for _, scopes := range [][]model.Scope{
		{model.ScopeWrite}, {model.ScopeExport}, {model.ScopeRead, model.ScopeWrite},
		{model.ScopeRead, model.ScopeExport},
	} {
		if owner.May(model.MaySendOut, &model.APIToken{Scopes: scopes}) {
			t.Errorf("a token with %v sends events out", scopes)
		}
	}

	if viewer := (&model.User{Role: model.RoleViewer}); viewer.May(model.MayErase, nil) || viewer.May(model.MaySendOut, nil) ||
		viewer.May(model.MaySendOut, everything) {
		t.Error("a viewer sends events out")
	}
	if viewer := (&model.User{Role: model.RoleViewer}); viewer.May(model.MayConfigure, everything) || !viewer.May(model.MayExport, everything) {
		t.Error("a viewer's token")
	}
}

func TestParseAccountName(t *testing.T) {
	for _, name := range []string{"Example Ltd", "example.com", "Wwwonder", strings.Repeat("ü", 100)} {
		if got, err := model.ParseAccountName("name", " "+name); got != name || err != nil {
			t.Errorf("%q is %q, %v", name, got, err)
		}
	}

	for _, name := range []string{"", strings.Repeat("ü", 101), "a\nb", "see http://x.example", "ftp://x", "WWW.example.com"} {
		if got, err := model.ParseAccountName("name", name); got != "" || err == nil {
			t.Errorf("%q is %q, %v", name, got, err)
		}
	}
}

func TestMailName(t *testing.T) {
	for name, want := range map[string]string{
		"Example Ltd":                     `"Example Ltd"`,
		"Example Inc. of Nowhere.":        `"Example Inc. of Nowhere."`,
		"example.com":                     `"example·com"`,
		"win at https://x.example/?a@b":   `"win at https //x·example/?a·b"`,
		"two\r\nlines \"quoted\"":         `"twolines ·quoted·"`,
		strings.Repeat("ü", 60):           `"` + strings.Repeat("ü", 60) + `"`,
		strings.Repeat("ü", 61):           `"` + strings.Repeat("ü", 59) + `…"`,
		strings.Repeat("x", 100) + ".com": `"` + strings.Repeat("x", 59) + `…"`,
		"bad \xff text":                   "\"bad \ufffd text\"",
	} {
		testkit.Equal(t, model.MailName(name), want, "%q is shown as", name)
	}
}

// TestGuestOfATransferredSite checks that a guest of a site is not its guest in the account that
// gets the site.
func TestGuestOfATransferredSite(t *testing.T) {
	u := &model.User{Memberships: []*model.Membership{{AccountID: 1, SiteIDs: []model.SiteID{7}}, {AccountID: 2, Role: model.RoleOwner}}}
	for _, test := range []struct {
		account model.AccountID
		site    model.SiteID
		want    bool
	}{{1, 7, true}, {1, 8, false}, {2, 7, false}} {
		testkit.Equal(t, u.IsGuestOf(test.account, test.site), test.want, "a guest of site %d of account %d", test.site, test.account)
	}
	if !u.IsGuestOfAny(7) || u.IsGuestOfAny(8) {
		t.Error("the guest's sites are others")
	}
}
