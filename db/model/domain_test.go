package model_test

import (
	"strings"
	"testing"

	"github.com/tallygate/tallygate/db/model"
	"github.com/tallygate/tallygate/tools/testkit"
)

func TestParseNewSiteDomain(t *testing.T) {
	for in, want := range map[string]string{
		"example.com": "example.com", "WWW.Example.com.": "example.com", "www.shop.example.com": "shop.example.com",
		"www2.example.com": "www2.example.com", "www.www.example.com": "www.example.com", "www.bücher.example": "xn--bcher-kva.example",
		"www.gov.uk": "www.gov.uk", "www.com": "www.com", "example.co.uk": "example.co.uk", "www.example.co.uk": "example.co.uk",
		"user.github.io": "user.github.io", "www.shop.localhost": "shop.localhost",
		"co.uk": "", "CO.UK": "", "gov.uk": "", "com": "", "localhost": "", "www.": "",
	} {
		got, err := model.ParseNewSiteDomain(in, true)
		if got != want || (err == nil) != (want != "") {
			t.Errorf("ParseNewSiteDomain(%q) = %q, %v; want %q", in, got, err, want)
		}
	}
}

func TestDisplayDomain(t *testing.T) {
	for domain, want := range map[string]string{
		"example.com": "example.com", "xn--mnchen-3ya.de": "münchen.de", "shop.xn--bcher-kva.example": "shop.bücher.example",
		"xn--r8jz45g.jp": "例え.jp", "xn--hxajbheg2az3al.xn--jxalpdlp": "παράδειγμα.δοκιμή",
		"xn--pple-43d.com": "xn--pple-43d.com", // begins with a Cyrillic letter
		"xn--a.example":    "xn--a.example",
	} {
		testkit.Equal(t, model.DisplayDomain(domain), want, "DisplayDomain(%q)", domain)
	}
}

func TestParseDomain(t *testing.T) {
	label63 := strings.Repeat("a", 63)
	for _, test := range []struct {
		in    string
		local bool   // TALLYGATE_ALLOW_LOCAL_DOMAINS
		want  string // empty: refused
	}{
		{in: "example.com", want: "example.com"},
		{in: " Example.COM. ", want: "example.com"},
		{in: "www.example.co.uk", want: "www.example.co.uk"},
		{in: "bücher.example", want: "xn--bcher-kva.example"},
		{in: "XN--BCHER-KVA.example", want: "xn--bcher-kva.example"},
		{in: "例え.jp", want: "xn--r8jz45g.jp"},
		{in: "under_score.example", want: "under_score.example"},
		{in: label63 + ".example", want: label63 + ".example"},
		{in: "demo.localhost", local: true, want: "demo.localhost"},
		{in: "demo.localhost"},
		{in: "localhost"},
		{in: "localhost", local: true},
		{in: ""},
		{in: "."},
		{in: "example"},
		{in: "example..com"},
		{in: ".example.com"},
		{in: "https://example.com"},
		{in: "example.com/path"},
		{in: "example.com:443"},
		{in: "user@example.com"},
		{in: "exa mple.com"},
		{in: "example.com\x00"},
		{in: "*.example.com"},
		{in: "127.0.0.1"},
		{in: "127.1"},
		{in: "0x7f.1"},
		{in: "1.2.3.0x4"},
		{in: "::1"},
		{in: "[::1]"},
		{in: "xn--a.example"}, // not the ASCII form of anything
		{in: "a" + label63 + ".example"},
		{in: strings.Repeat("abcdefg.", 32) + "com"},
	} {
		got, err := model.ParseDomain(test.in, test.local)
		if got != test.want || (err == nil) != (test.want != "") {
			t.Errorf("ParseDomain(%q, %v) = %q, %v; want %q", test.in, test.local, got, err, test.want)
		}
		if e, ok := err.(*model.Error); err != nil && (!ok || e.Kind != model.Invalid || e.Field != "domain") {
			t.Errorf("ParseDomain(%q): error %#v is not one for the field domain", test.in, err)
		}
	}
}

// TestSitekeyDomains: sitekeys may name localhost, and then serve it; nothing else differs from a
// site's domains. Addresses are never served.
func TestSitekeyDomains(t *testing.T) {
	for _, in := range []string{"localhost", " LocalHost. ", "LOCALHOST"} {
		if got, err := model.ParseSitekeyDomain(in, false); got != "localhost" || err != nil {
			t.Errorf("ParseSitekeyDomain(%q) = %q, %v", in, got, err)
		}
	}

	for _, in := range []string{"example.com", "app.localhost", "127.0.0.1", "::1", "localhost:3000", "http://localhost", "*.localhost", ""} {
		want, wantErr := model.ParseDomain(in, false)
		if got, err := model.ParseSitekeyDomain(in, false); got != want || (err == nil) != (wantErr == nil) {
			t.Errorf("ParseSitekeyDomain(%q) = %q, %v; want %q, %v", in, got, err, want, wantErr)
		}
	}

	for _, test := range []struct {
		host    string
		domains []string
		want    bool
	}{
		{"localhost", []string{"example.com", "localhost"}, true},
		{"app.localhost", []string{"localhost"}, true}, // a subdomain
		{"localhost", []string{"example.com"}, false},
		{"localhost", nil, false},
		{"notlocalhost", []string{"localhost"}, false},
		{"127.0.0.1", []string{"localhost"}, false},
		{"::1", []string{"localhost"}, false},
		{"127.0.0.1", []string{"127.0.0.1"}, false}, // even if it is listed
		{"www.example.com", []string{"example.com"}, true},
	} {
		testkit.Equal(t, model.HostServed(test.host, test.domains), test.want, "HostServed(%q, %q)", test.host, test.domains)
	}

	if model.HostBelongs("localhost", []string{"localhost"}) {
		t.Error("localhost belongs to a site")
	}
}

// TestWildcardDomain: the error of a wildcard says that subdomains are implied.
func TestWildcardDomain(t *testing.T) {
	for _, in := range []string{"*.example.com", " *.example.com", "*."} {
		if _, err := model.ParseDomain(in, false); err == nil || !strings.Contains(err.Error(), "subdomains are implied") {
			t.Errorf("ParseDomain(%q): %v", in, err)
		}
	}
}

func FuzzOriginHost(f *testing.F) {
	for _, s := range []string{
		"https://example.com", "http://EXAMPLE.com.:80", "null", "https://a_b.example", "https://.", "https://-",
		"https://1.2.3.4", "https://[::1]:1", "https://Bücher.de", "https://xn--a",
	} {
		f.Add(s)
	}

	f.Fuzz(func(t *testing.T, origin string) {
		host, ok := model.OriginHost(origin)
		if read, _, readable := model.PageAddress(origin); read != host || readable != ok {
			t.Errorf("OriginHost(%q) = %q, %v; read as an address it is %q, %v", origin, host, ok, read, readable)
		}
		if !ok {
			return
		}
		if again, ok := model.OriginHost("https://" + host); !strings.Contains(host, ":") && (!ok || again != host) {
			t.Errorf("OriginHost(%q) = %q, which reads as %q, %v", origin, host, again, ok)
		}

		if model.HostBelongs(host, []string{"example.com"}) && host != "example.com" && !strings.HasSuffix(host, ".example.com") {
			t.Errorf("%q from %q belongs to example.com", host, origin)
		}
	})
}

func TestParseNetwork(t *testing.T) {
	for text, want := range map[string]string{
		"192.0.2.7": "192.0.2.7/32", " 192.0.2.7 ": "192.0.2.7/32", "::ffff:192.0.2.7": "192.0.2.7/32", "2001:db8::1": "2001:db8::1/128",
		"10.0.0.0/8": "10.0.0.0/8", "2001:db8::/32": "2001:db8::/32",
	} {
		if got := model.ParseNetwork(text); got.String() != want {
			t.Errorf("%q is %s, want %s", text, got, want)
		}
	}

	for _, text := range []string{
		"", "x", "10.0.0.0/33", "10.0.0.0/-1", "10.0.0", "10.0.0.0/8/8", "2001:db8::/129", "fe80::%eth0/64",
		"fe80::1%eth0",
	} {
		if got := model.ParseNetwork(text); got.IsValid() {
			t.Errorf("%q is %s", text, got)
		}
	}
}
