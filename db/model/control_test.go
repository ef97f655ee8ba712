package model

import (
	"slices"
	"strings"
	"testing"
)

func TestParseNetwork(t *testing.T) {
	for text, want := range map[string]string{
		"192.0.2.7": "192.0.2.7/32", " 192.0.2.7 ": "192.0.2.7/32", "::ffff:192.0.2.7": "192.0.2.7/32", "2001:db8::1": "2001:db8::1/128",
		"10.0.0.0/8": "10.0.0.0/8", "2001:db8::/32": "2001:db8::/32",
	} {
		if got := ParseNetwork(text); got.String() != want {
			t.Errorf("%q is %s, want %s", text, got, want)
		}
	}

	for _, text := range []string{"", "x", "10.0.0.0/33", "10.0.0.0/-1", "10.0.0", "10.0.0.0/8/8", "2001:db8::/129", "fe80::%eth0/64", "fe80::1%eth0"} {
		if got := ParseNetwork(text); got.IsValid() {
			t.Errorf("%q is %s", text, got)
		}
	}
}

func TestParseScopes(t *testing.T) {
	got, err := ParseScopes([]Scope{ScopeWrite, ScopeExport, ScopeWrite, ScopeRead})
	if want := []Scope{ScopeExport, ScopeRead, ScopeWrite}; err != nil || !slices.Equal(got, want) {
		t.Errorf("got %v, %v; want %v", got, err, want)
	}

	for _, scopes := range [][]Scope{nil, {}, {""}, {ScopeRead, "ADMIN"}} {
		if _, err := ParseScopes(scopes); KindOf(err) != Invalid {
			t.Errorf("%v: %v", scopes, err)
		}
	}
}

// TestMay also checks that an unknown permission is refused, by session and by token.
func TestMay(t *testing.T) {
	everything := &APIToken{Scopes: []Scope{ScopeRead, ScopeWrite, ScopeExport}}
	owner := &User{Role: RoleOwner, Operator: true}
	for p, byToken := range map[Permission]bool{
		MayRead: true, MayExport: true, MayConfigure: true, MaySendOut: true, MayErase: false, MayManage: false, MayPersonal: false, MayOperate: false,
	} {
		if !owner.May(p, nil) || owner.May(p, everything) != byToken {
			t.Errorf("permission %d: %v by session, %v by token", p, owner.May(p, nil), owner.May(p, everything))
		}
	}

	if owner.May(200, nil) || owner.May(200, everything) || (&User{}).May(MayConfigure, nil) || (&User{Role: "ADMIN"}).May(MayManage, nil) {
		t.Error("what is unknown is allowed")
	}

	for _, scopes := range [][]Scope{{ScopeWrite}, {ScopeExport}, {ScopeRead, ScopeWrite}, {ScopeRead, ScopeExport}} {
		if owner.May(MaySendOut, &APIToken{Scopes: scopes}) {
			t.Errorf("a token with %v sends events out", scopes)
		}
	}

	if viewer := (&User{Role: RoleViewer}); viewer.May(MayErase, nil) || viewer.May(MaySendOut, nil) || viewer.May(MaySendOut, everything) {
		t.Error("a viewer sends events out")
	}
	if viewer := (&User{Role: RoleViewer}); viewer.May(MayConfigure, everything) || !viewer.May(MayExport, everything) {
		t.Error("a viewer's token")
	}
}

// TestRejectionAdvice checks that every code that the endpoints count has its own advice.
func TestRejectionAdvice(t *testing.T) {
	rejected := strings.Fields("bad_body bad_json bad_path unknown_event bad_event visitor_required domain_not_allowed quota_exceeded flood")
	ignored := strings.Fields("bot excluded_address duplicate_transaction duplicate_pageview own_link")
	unknown := RejectionAdvice("something else")
	seen := map[string]bool{unknown: true}
	for i, code := range append(rejected, ignored...) {
		advice := RejectionAdvice(code)
		if seen[advice] || !strings.HasSuffix(advice, ".") {
			t.Errorf("%s: %q", code, advice)
		}

		seen[advice] = true

		if IsIgnored(code) != (i >= len(rejected)) {
			t.Errorf("%s is ignored: %v", code, IsIgnored(code))
		}
	}

	if len(seen) != len(rejectionAdvice)+1 {
		t.Errorf("%d codes are tested, %d have advice", len(seen)-1, len(rejectionAdvice))
	}
}

func TestParseAccountName(t *testing.T) {
	for _, name := range []string{"Example Ltd", "example.com", "Wwwonder", strings.Repeat("ü", 100)} {
		if got, err := ParseAccountName("name", " "+name); got != name || err != nil {
			t.Errorf("%q is %q, %v", name, got, err)
		}
	}

	for _, name := range []string{"", strings.Repeat("ü", 101), "a\nb", "see http://x.example", "ftp://x", "WWW.example.com"} {
		if got, err := ParseAccountName("name", name); got != "" || err == nil {
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
		if got := MailName(name); got != want {
			t.Errorf("%q is shown as %s, want %s", name, got, want)
		}
	}
}
