package config

import (
	"bytes"
	"encoding/gob"
	"errors"
	"net/netip"
	"reflect"
	"slices"
	"strings"
	"testing"

	"github.com/tallygate/tallygate/db/model"
	"github.com/tallygate/tallygate/tools/testkit"
)

// TestSettingsOfAChild checks that a child process, which gets its settings in a message of gob,
// gets each of them, also texts that are not UTF-8.
func TestSettingsOfAChild(t *testing.T) {
	c := &Config{
		Roles: Roles{RoleControl, RoleData}, CellAddresses: CellAddresses{map[int64]string{2: "postgres://x"}},
		Signups: model.SignupsOpen, TrustedProxies: Networks{{netip.MustParsePrefix("10.0.0.0/8")}},
	}
	c.OIDCAllowNets, c.WebhookAllowNets = c.TrustedProxies, c.TrustedProxies
	for field, value := range reflect.ValueOf(c).Elem().Fields() {
		switch {
		case !value.IsZero():
		case value.Kind() == reflect.String:
			value.SetString(field.Name + "\xff")
		case value.CanInt():
			value.SetInt(7)
		case value.CanUint():
			value.SetUint(7)
		case value.Kind() == reflect.Bool:
			value.SetBool(true)
		default:
			t.Fatalf("this test does not know how to set %s", field.Name)
		}
	}

	var message bytes.Buffer
	testkit.NoError(t, gob.NewEncoder(&message).Encode(c))
	got := new(Config)
	if err := gob.NewDecoder(&message).Decode(got); err != nil || !reflect.DeepEqual(got, c) {
		t.Errorf("%+v becomes %+v, %v", c, got, err)
	}
}

// TestSplit checks the roles of the two processes of a node.
func TestSplit(t *testing.T) {
	for _, test := range []struct {
		roles      Roles
		processes  string
		own, child Roles
	}{
		{Roles{RoleControl, RoleData, RoleWorker}, "two", Roles{RoleData}, Roles{RoleControl, RoleWorker}},
		{Roles{RoleData, RoleWorker}, "two", Roles{RoleData}, Roles{RoleWorker}},
		{Roles{RoleControl, RoleData, RoleWorker}, "one", nil, nil},
		{Roles{RoleControl, RoleWorker}, "two", nil, nil},
		{Roles{RoleData}, "two", nil, nil},
	} {
		c := &Config{Roles: test.roles, Processes: test.processes, MetricsAddr: "x", HealthAddr: "x", TLS: TLSAuto}
		if c.Splits() != (test.own != nil) {
			t.Errorf("%+v: splits: %v", test, c.Splits())
			continue
		}
		if !c.Splits() {
			continue
		}

		own, child := c.Split()
		if !slices.Equal(own.Roles, test.own) || !slices.Equal(child.Roles, test.child) || own.MetricsAddr == "" {
			t.Errorf("%+v: %v and %v", test, own.Roles, child.Roles)
		}
		if child.Splits() || child.MetricsAddr != "" || child.HealthAddr != "" || child.UsesTLS() {
			t.Errorf("%+v: the child shares a listener, or has a child: %+v", test, child)
		}
	}
}

// TestNetworks checks that IPv4-mapped networks are parsed as IPv4.
func TestNetworks(t *testing.T) {
	for text, want := range map[string]string{
		"10.0.0.0/8": "10.0.0.0/8", "10.1.2.3/8": "10.0.0.0/8", "10.1.2.3": "10.1.2.3/32", "fd00::/8": "fd00::/8",
		"::1": "::1/128", " ::/0": "::/0",
		"::ffff:10.0.0.0/104": "10.0.0.0/8", "::ffff:10.1.2.3/104": "10.0.0.0/8", "::ffff:10.1.2.3": "10.1.2.3/32",
		"::ffff:10.1.2.3/128": "10.1.2.3/32",
		"::ffff:a00:0/104":    "10.0.0.0/8", "::ffff:0:0/96": "0.0.0.0/0", "::ffff:0.0.0.0/95": "96 bits",
		"::ffff:10.0.0.0/8": "96 bits",
		"10.0.0.0/33":       "not an address", "proxy.example.com": "not an address", "": "not an address",
	} {
		var n Network
		err := n.UnmarshalFlag(text)
		if got := n.String(); err == nil && got != want {
			t.Errorf("%q is read as %s, want %s", text, got, want)
		}
		if err != nil && (!strings.Contains(err.Error(), want) || !strings.Contains(err.Error(), "10.1.2.0/24")) {
			t.Errorf("%q: %v, want %s", text, err, want)
		}
		if err == nil && !n.Contains(n.Addr()) {
			t.Errorf("%q does not contain its own address", text)
		}
	}
}

// TestWideNetworks checks which networks of trusted proxies hold too many addresses.
func TestWideNetworks(t *testing.T) {
	for text, want := range map[string]bool{
		"10.0.0.0/8": true, "10.0.0.0/9": false, "128.0.0.0/1": true, "0.0.0.0/7": true, "17.0.0.0/8": true,
		"172.16.0.0/12": false, "192.168.0.0/16": false, "10.1.2.3": false,
		"127.0.0.0/8": false, "126.0.0.0/7": true, "127.0.0.1": false,
		"::ffff:10.0.0.0/104": true, "::ffff:10.0.0.0/105": false,
		"fd00::/8": true, "fc00::/7": true, "2000::/3": true, "fd00::/16": true, "fd00::/17": false,
		"2003::/19": false, "2606:4700::/32": false, "2a06:98c0::/29": false, "fd12:3456:789a::/48": false, "::1": false,
	} {
		var n Network
		if err := n.UnmarshalFlag(text); err != nil || n.IsWide() != want {
			t.Errorf("%s is wide: %v, %v, want %v", text, n.IsWide(), err, want)
		}
	}
}

// TestDatabaseURL checks that each address that the driver reads is accepted, and that errors name
// what is wrong.
func TestDatabaseURL(t *testing.T) {
	for text, want := range map[string]string{
		"postgres://u:p@db.example/tg":                    "",
		"postgresql://db.example:5433/tg?sslmode=require": "",
		"postgresql:///tg?host=/run/postgresql":           "",
		"postgres://u@/tg?host=/run/postgresql&port=1":    "",
		"postgres://%2Frun%2Fpostgresql/tg":               "",
		"postgres://a:5432,b:5433/x":                      "",
		"mysql://db.example/tg":                           "postgres://",
		"db.example":                                      "postgres://",
		"postgres://u:hunter2%@db.example/tg":             "%25",
		" postgres://db.example/tg":                       "postgres://",
		"postgres://db.example/tg?sslrootcert=/missing":   "sslrootcert",
		"postgres://db.example:port/tg":                   "cannot be used",
		"postgres://u:hunter2@db/tg?sslmode=sometimes":    "cannot be used",
	} {
		var address DatabaseURL
		err := address.UnmarshalFlag(text)
		if (err == nil) != (want == "") || err != nil && !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v", text, err)
		}
		if err != nil && strings.Contains(err.Error(), "hunter2") {
			t.Errorf("the error has the password: %v", err)
		}
	}
}

// TestDefaultPlans checks that new sites and accounts have no limit where only the operator creates
// accounts, a limit where sign-ups are open, and the plan of the settings in both cases.
func TestDefaultPlans(t *testing.T) {
	for _, test := range []struct {
		signups           model.SignupPolicy
		setting           string
		site, captcha     string
		pageviews, quotas int64
	}{
		{model.SignupsClosed, "", "ENTERPRISE", "ENTERPRISE", model.MaxMonthlyPageviews, model.Unlimited},
		{model.SignupsFirstOnly, "", "ENTERPRISE", "ENTERPRISE", model.MaxMonthlyPageviews, model.Unlimited},
		{model.SignupsOpen, "", "FREE", "FREE", 10_000, 10_000},
		{model.SignupsOpen, "unlimited", "ENTERPRISE", "ENTERPRISE", model.MaxMonthlyPageviews, model.Unlimited},
		{model.SignupsOpen, "ENTERPRISE", "ENTERPRISE", "ENTERPRISE", model.MaxMonthlyPageviews, model.Unlimited},
		{model.SignupsFirstOnly, "FREE", "FREE", "FREE", 10_000, 10_000},
		{model.SignupsFirstOnly, "PRO_1M", "PRO_1M", "PRO_1M", 1_000_000, 1_000_000},
	} {
		c := Config{Signups: test.signups}
		testkit.NoError(t, errors.Join(c.DefaultSitePlan.UnmarshalFlag(test.setting), c.DefaultCaptchaPlan.UnmarshalFlag(test.setting)))
		pageviews, _ := c.SitePlan().MonthlyPageviews()
		quota, _ := c.CaptchaPlan().Quota()
		if string(c.SitePlan()) != test.site || string(c.CaptchaPlan()) != test.captcha || pageviews != test.pageviews || quota != test.quotas {
			t.Errorf("%s, %q: %s with %d, %s with %d", test.signups, test.setting, c.SitePlan(), pageviews, c.CaptchaPlan(), quota)
		}
	}
}
