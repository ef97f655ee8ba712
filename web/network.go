package web

import "net/netip"

// Network returns the network that one client can be expected to stay in: the first bits4 bits of
// an IPv4 address, or the first bits6 bits of an IPv6 address. An IPv4-mapped address counts as
// IPv4, and a zone is ignored. The zero address has the zero network. Network panics if a number of
// bits is out of range.
func Network(addr netip.Addr, bits4, bits6 int) netip.Prefix {
	addr = addr.Unmap()
	bits := bits6
	if addr.Is4() {
		bits = bits4
	}

	network, err := addr.Prefix(bits)
	if err != nil {
		panic(err)
	}

	return network
}
