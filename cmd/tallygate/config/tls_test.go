package config

import (
	"slices"
	"strings"
	"testing"

	"github.com/jessevdk/go-flags"
)

// TestTLS checks which settings can be served over TLS, and the messages about others.
func TestTLS(t *testing.T) {
	const base, analytics = "--base-url=https://app.example.com", "--analytics-url=https://stats.example.com"
	for _, test := range []struct {
		args string
		want string // a part of the error; "": hosts
		host []string
	}{
		{args: base + " " + analytics, host: []string{"app.example.com", "stats.example.com"}},
		{
			args: base + " " + analytics + " --captcha-url=https://Captcha.example.com:8443",
			host: []string{"app.example.com", "stats.example.com", "captcha.example.com"},
		},
		{args: "--roles=data " + analytics, host: []string{"stats.example.com"}},
		{args: "--roles=control " + base + " " + analytics, host: []string{"app.example.com"}},
		{args: base + " " + analytics + " --tls-email=a@example.com --tls-acme-directory=https://ca.internal:9000/acme/directory",
			host: []string{"app.example.com", "stats.example.com"}},
		{args: "--roles=worker"},
		{args: analytics, want: "auto requires --base-url"},
		{args: base, want: "auto requires --analytics-url"},
		{args: base + " --analytics-url=http://stats.example.com", want: "TALLYGATE_ANALYTICS_URL to begin with https://"},
		{
			args: base + " --analytics-url=https://app.example.com:8443",
			want: "a host for TALLYGATE_ANALYTICS_URL that differs from TALLYGATE_BASE_URL",
		},
		{args: base + " " + analytics + " --captcha-url=https://APP.example.com", want: "a host for TALLYGATE_CAPTCHA_URL that differs"},
		{args: base + " --analytics-url=https://192.0.2.1", want: `"192.0.2.1" is none`},
		{args: base + " --analytics-url=https://[2001:db8::1]", want: `"2001:db8::1" is none`},
		{args: base + " --analytics-url=https://stats.localhost", want: `"stats.localhost" is none`},
		{args: base + " --analytics-url=https://stats", want: `"stats" is none`},
		{args: base + " --analytics-url=https://*.example.com", want: "is none"},
		{args: base + " " + analytics + " --tls-email=someone", want: `"someone" is not an e-mail address`},
		{args: base + " " + analytics + " --tls-acme-directory=http://ca.internal/dir", want: "begins with https://"},
		{args: base + " " + analytics + " --tls-addr=:80", want: "the address of --tls-addr"},
	} {
		c := new(Config)
		_, err := flags.NewParser(c, flags.None).ParseArgs(append(strings.Fields(test.args), "--tls=auto"))
		if err != nil {
			t.Fatalf("%s: %v", test.args, err)
		}

		err = c.Validate()
		if test.want == "" && (err != nil || c.UsesTLS() != (len(test.host) > 0) || !slices.Equal(c.TLSHosts(), test.host)) {
			t.Errorf("%s: %v, hosts %q", test.args, err, c.TLSHosts())
		}
		if test.want != "" && (err == nil || !strings.HasPrefix(err.Error(), "--tls") || !strings.Contains(err.Error(), test.want)) {
			t.Errorf("%s: %v, want %s", test.args, err, test.want)
		}

		c.TLS = "off"
		if err := c.Validate(); err != nil || c.UsesTLS() {
			t.Errorf("%s without TLS: %v", test.args, err)
		}
	}
}
