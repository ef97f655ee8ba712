package config

import (
	"strings"
	"testing"
)

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
		err := n.UnmarshalText([]byte(text))
		if got := n.String(); err == nil && got != want {
			t.Errorf("%q is read as %s, want %s", text, got, want)
		}
		if err != nil && (!strings.Contains(err.Error(), want) || !strings.Contains(err.Error(), "10.0.0.0/8")) {
			t.Errorf("%q: %v, want %s", text, err, want)
		}
		if err == nil && !n.Contains(n.Addr()) {
			t.Errorf("%q does not contain its own address", text)
		}
	}
}
