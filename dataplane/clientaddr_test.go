package dataplane_test

import (
	"net/http"
	"net/netip"
	"testing"

	"github.com/tallygate/tallygate/dataplane"
)

func TestClientAddr(t *testing.T) {
	clientAddr := dataplane.ClientAddr([]netip.Prefix{netip.MustParsePrefix("10.0.0.0/8"), netip.MustParsePrefix("fd00::/8")})
	for _, test := range []struct {
		name      string
		peer      string
		forwarded []string
		want      string
	}{
		{"no proxy", "203.0.113.1:5000", nil, "203.0.113.1"},
		{"a header from anybody", "203.0.113.1:5000", []string{"198.51.100.9"}, "203.0.113.1"},
		{"one proxy", "10.0.0.1:5000", []string{"198.51.100.9"}, "198.51.100.9"},
		{"two proxies", "10.0.0.1:5000", []string{"198.51.100.9, 10.0.0.2"}, "198.51.100.9"},
		{"a client that forges a hop", "10.0.0.1:5000", []string{"192.0.2.66, 198.51.100.9"}, "198.51.100.9"},
		{"a client that forges a trusted hop", "10.0.0.1:5000", []string{"10.9.9.9, 198.51.100.9"}, "198.51.100.9"},
		{"the last of several headers", "10.0.0.1:5000", []string{"192.0.2.66", "198.51.100.9"}, "198.51.100.9"},
		{"several headers, the last one trusted", "10.0.0.1:5000", []string{"198.51.100.9", "10.0.0.3"}, "198.51.100.9"},
		{"only proxies", "10.0.0.1:5000", []string{"10.0.0.2, 10.0.0.3"}, "10.0.0.2"},
		{"no header from a proxy", "10.0.0.1:5000", nil, "10.0.0.1"},
		{"a broken entry", "10.0.0.1:5000", []string{"198.51.100.9, unknown"}, "10.0.0.1"},
		{"an empty entry", "10.0.0.1:5000", []string{"198.51.100.9,"}, "10.0.0.1"},
		{"a port", "10.0.0.1:5000", []string{"198.51.100.9:1234"}, "198.51.100.9"},
		{"IPv6", "[fd00::1]:5000", []string{"2001:db8::7"}, "2001:db8::7"},
		{"IPv6 in brackets with a port", "[fd00::1]:5000", []string{"[2001:db8::7]:443"}, "2001:db8::7"},
		{"IPv4 in IPv6", "[::ffff:10.0.0.1]:5000", []string{"::ffff:198.51.100.9"}, "198.51.100.9"},
		{"a zone", "[fe80::1%eth0]:5000", nil, "fe80::1"},
		{"no peer", "@", nil, "invalid IP"},
	} {
		t.Run(test.name, func(t *testing.T) {
			r := &http.Request{RemoteAddr: test.peer, Header: http.Header{"X-Forwarded-For": test.forwarded}}
			if got := clientAddr(r).String(); got != test.want {
				t.Errorf("peer %s, X-Forwarded-For %q: %s, want %s", test.peer, test.forwarded, got, test.want)
			}
		})
	}
}
