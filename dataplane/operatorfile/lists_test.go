package operatorfile

import (
	"fmt"
	"math/rand/v2"
	"net/netip"
	"strings"
	"testing"

	"github.com/tallygate/tallygate/db/model"
	"github.com/tallygate/tallygate/tools/testkit"
)

func TestDomains(t *testing.T) {
	f := newFixture(t, "spam.txt")
	f.write([]byte("\uFEFF# Spam\r\n\r\nspam.example\r\n  Shop.Example.ORG.  # a comment\n\tmünchen.example\nxn--80ak6aa92e.com\nkharkov.ua"))
	file, err := OpenDomains(f.source())
	testkit.NoError(t, err)

	for host, want := range map[string]bool{
		"spam.example": true, "www.spam.example": true, "a.b.spam.example": true,
		"notspam.example": false, "spam.example.org": false, "example": false, "spam": false,
		"shop.example.org": true, "example.org": false, "xn--mnchen-3ya.example": true, "xn--80ak6aa92e.com": true,
		"kharkov.ua": true, "shop.kharkov.ua": false, "ua": false, // a suffix stands for itself only
		"": false, ".": false, "..": false, "192.0.2.1": false, "localhost": false,
	} {
		testkit.Equal(t, file.Value().Contains(host), want, "%q", host)
	}

	// A list is as old as its last modification.
	if state := file.State(); !state.Built.Equal(f.now.Add(-99 * 1e9 * 3600)) {
		t.Errorf("built at %v", state.Built)
	}
}

func TestNetworks(t *testing.T) {
	f := newFixture(t, "networks.txt")
	f.write([]byte("# Clouds\n192.0.2.0/24\n198.51.100.77 # one\n::ffff:203.0.113.0/120\n2001:db8:5::/48\n2001:db8::1\n10.1.2.3/8\n"))
	file, err := OpenNetworks(f.source())
	testkit.NoError(t, err)

	for address, want := range map[string]bool{
		"192.0.2.0": true, "192.0.2.255": true, "192.0.3.0": false, "192.0.1.255": false, "::ffff:192.0.2.9": true,
		"198.51.100.77": true, "198.51.100.78": false, "203.0.113.9": true, "203.0.114.9": false,
		"2001:db8:5::1": true, "2001:db8:5::1%eth0": true, "2001:db8:6::1": false, "2001:db8::1": true, "2001:db8::2": false,
		"10.255.0.1": true, "11.0.0.1": false, "::": false,
	} {
		testkit.Equal(t, file.Value().Contains(netip.MustParseAddr(address)), want, "%s", address)
	}
	if file.Value().Contains(netip.Addr{}) {
		t.Error("no address is contained")
	}
}

// TestListsRefuse checks that a faulty line is named, and that a reload keeps the list before it.
func TestListsRefuse(t *testing.T) {
	domains := func(f *fixture) (Watched, func() State, error) {
		file, err := OpenDomains(f.source())
		if err != nil {
			return nil, nil, err
		}
		return file, file.State, nil
	}
	networks := func(f *fixture) (Watched, func() State, error) {
		file, err := OpenNetworks(f.source())
		if err != nil {
			return nil, nil, err
		}
		return file, file.State, nil
	}

	tests := []struct {
		name, text, want string
		open             func(*fixture) (Watched, func() State, error)
	}{
		{"empty", "", "the list has no entries", domains},
		{"comments alone", "# nothing\n\n", "the list has no entries", networks},
		{"address", "spam.example\n192.0.2.1\n", `line 2: "192.0.2.1" is not a domain`, domains},
		{"URL", "# list\nhttps://spam.example/\n", `line 2: "https://spam.example/" is not a domain`, domains},
		{"wildcard", "*.spam.example\n", `line 1: "*.spam.example" is not a domain`, domains},
		{"two words", "spam.example example.org\n", "line 1: ", domains},
		{"single label", "spam\n", "line 1: ", domains},
		{"binary", "\x00\x01\x02\n", "line 1: ", domains},
		{"long line", strings.Repeat("x", 1000) + "\n", `xxx…" is not a domain`, domains},
		{"name", "192.0.2.0/24\n\nexample.org\n", `line 3: "example.org" is not an address or a network`, networks},
		{"bits", "192.0.2.0/33\n", `line 1: "192.0.2.0/33" is not`, networks},
		{"all of IPv4", "192.0.2.0/24\n0.0.0.0/0\n", `line 2: "0.0.0.0/0" is the network of all addresses`, networks},
		{"all of IPv6", "::/0\n", "line 1: ", networks},
		{"all of IPv4, mapped", "::ffff:0.0.0.0/96\n", "is the network of all addresses", networks},
		{"more than IPv4, mapped", "::ffff:0.0.0.0/90\n", "is not an address or a network", networks},
		{"zone", "fe80::1%eth0\n", "line 1: ", networks},
		{"columns", "192.0.2.0/24,AWS\n", "line 1: ", networks},
		{"too many", strings.Repeat("192.0.2.1\n", maxEntries+1), "line 200001: more than 200000 entries", networks},
	}

	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			f := newFixture(t, "list.txt")
			f.write([]byte(test.text))
			if _, _, err := test.open(f); err == nil || !strings.Contains(err.Error(), test.want) ||
				!strings.HasPrefix(err.Error(), f.path+": ") {
				t.Errorf("at the start: %v, want %q", err, test.want)
			}

			valid := map[bool]string{true: "valid.example\n", false: "192.0.2.0/24\n"}
			for _, text := range valid {
				f.write([]byte(text))
				file, state, err := test.open(f)
				if err != nil {
					continue // a list of the other kind
				}
				f.write([]byte(test.text))
				file.Check()
				if s := state(); s.Err == nil || !strings.Contains(s.Err.Error(), test.want) || f.warnings() != 1 {
					t.Errorf("after a reload: %+v, %d warnings", s, f.warnings())
				}
			}
		})
	}
}

// TestMostNetworks checks that a list of the largest size is read, and looked up without
// allocations.
func TestMostNetworks(t *testing.T) {
	n, _, err := parseNetworks(manyNetworks(maxEntries))
	testkit.NoError(t, err)

	addr, mapped := netip.MustParseAddr("192.0.2.1"), netip.MustParseAddr("::ffff:192.0.2.1")
	testkit.Equal(t, testing.AllocsPerRun(100, func() { n.Contains(addr); n.Contains(mapped) }), 0, "allocations")
}

// manyNetworks returns a list of random networks.
func manyNetworks(count int) []byte {
	random := rand.New(rand.NewPCG(1, 2))
	var list strings.Builder
	for range count {
		fmt.Fprintf(&list, "%d.%d.%d.0/%d\n", 1+random.IntN(223), random.IntN(256), random.IntN(256), 16+random.IntN(9))
	}
	return []byte(list.String())
}

// FuzzLists reads any text as both lists.
func FuzzLists(f *testing.F) {
	f.Add([]byte("spam.example\n192.0.2.0/24 # both\n"), "www.spam.example")
	f.Add([]byte("::ffff:0:0/96"), "0.0.0.0")

	f.Fuzz(func(t *testing.T, list []byte, value string) {
		if d, _, err := parseDomains(list); err == nil {
			if d.Contains(value) && !strings.Contains(value, ".") {
				t.Errorf("%q is contained", value)
			}
			for domain := range d.set {
				if !d.Contains("www."+domain) || model.HostBelongs(value, []string{domain}) != d.Contains(value) && len(d.set) == 1 {
					t.Errorf("%q and %q", domain, value)
				}
			}
		}
		if n, _, err := parseNetworks(list); err == nil {
			if addr, err := netip.ParseAddr(value); err == nil && n.Contains(addr) != n.Contains(addr.Unmap()) {
				t.Errorf("%s differs from its IPv4 address", addr)
			}
		}
	})
}

func BenchmarkNetworks(b *testing.B) {
	n, _, err := parseNetworks(manyNetworks(maxEntries))
	testkit.NoError(b, err)

	b.ReportAllocs()
	addr := netip.MustParseAddr("203.0.113.7")
	for b.Loop() {
		n.Contains(addr)
		addr = addr.Next()
	}
}

func BenchmarkDomains(b *testing.B) {
	var list strings.Builder
	for i := range 2_000 {
		fmt.Fprintf(&list, "spam%d.example\n", i)
	}
	d, _, err := parseDomains([]byte(list.String()))
	testkit.NoError(b, err)

	b.ReportAllocs()
	for b.Loop() {
		d.Contains("www.news.example.org")
	}
}
