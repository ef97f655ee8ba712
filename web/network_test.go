package web_test

import (
	"net/netip"
	"testing"

	"github.com/tallygate/tallygate/web"
)

func TestNetwork(t *testing.T) {
	for _, test := range []struct {
		addr         string
		bits4, bits6 int
		want         string
	}{
		{"203.0.113.77", 24, 48, "203.0.113.0/24"},
		{"203.0.113.77", 32, 64, "203.0.113.77/32"},
		{"::ffff:203.0.113.77", 24, 48, "203.0.113.0/24"},
		{"2001:db8:1:2:3::4", 24, 48, "2001:db8:1::/48"},
		{"2001:db8:1:2:3::4", 32, 64, "2001:db8:1:2::/64"},
		{"fe80::1%eth0", 32, 64, "fe80::/64"},
		{"", 24, 48, "invalid Prefix"},
	} {
		addr, _ := netip.ParseAddr(test.addr)
		if got := web.Network(addr, test.bits4, test.bits6).String(); got != test.want {
			t.Errorf("%q with /%d and /%d: %s, want %s", test.addr, test.bits4, test.bits6, got, test.want)
		}
	}
}
