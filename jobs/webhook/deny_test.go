package webhook

import (
	"net/netip"
	"testing"

	"code.dny.dev/ssrf"

	"github.com/tallygate/tallygate/db/model"
)

// TestDenyList: the table of package model refuses every network that the library's table refuses,
// which is generated from IANA's registries of special addresses.
func TestDenyList(t *testing.T) {
	guardian := ssrf.New(ssrf.WithPorts(443))
	denied := append(append([]netip.Prefix{}, ssrf.IPv4DeniedPrefixes...), ssrf.IPv6DeniedPrefixes...)
	for _, prefix := range denied {
		for _, addr := range []netip.Addr{prefix.Addr(), last(prefix)} {
			to := netip.AddrPortFrom(addr, 443)
			if guardian.SafeAddrPort(to) == nil {
				t.Errorf("the library permits %v of its own list", to)
			}
			if model.MayCall(to, nil) {
				t.Errorf("%v, of %v, may be called", to, prefix)
			}

			// An IPv4 address inside IPv6 is the same address.
			if mapped := netip.AddrPortFrom(netip.AddrFrom16(addr.As16()), 443); model.MayCall(mapped, nil) {
				t.Errorf("%v, of %v, may be called", mapped, prefix)
			}
		}
	}

	for _, text := range []string{"::1", "fe80::1", "fd00::1", "ff02::1", "4000::1", "64:ff9b::7f00:1"} {
		if addr := netip.MustParseAddr(text); model.MayCall(netip.AddrPortFrom(addr, 443), nil) {
			t.Errorf("%v may be called", addr)
		}
	}

	for _, text := range []string{"93.184.216.34", "2606:2800:220:1:248:1893:25c8:1946"} {
		to := netip.AddrPortFrom(netip.MustParseAddr(text), 443)
		if !model.MayCall(to, nil) || guardian.SafeAddrPort(to) != nil {
			t.Errorf("%v, a host on the internet, is refused", to)
		}
	}
}

// last returns the last address of a network.
func last(p netip.Prefix) netip.Addr {
	bytes := p.Masked().Addr().AsSlice()
	for bit := p.Bits(); bit < len(bytes)*8; bit++ {
		bytes[bit/8] |= 0x80 >> (bit % 8)
	}
	addr, _ := netip.AddrFromSlice(bytes)
	return addr
}
