package operatorfile

import (
	"math/rand/v2"
	"net/netip"
	"testing"

	"github.com/maxmind/mmdbwriter/mmdbtype"

	"github.com/tallygate/tallygate/db/model"
	"github.com/tallygate/tallygate/tools/countrytest"
	"github.com/tallygate/tallygate/tools/testkit"
)

// countriesOf opens a database in memory.
func countriesOf(tb testing.TB, data []byte) *Countries {
	tb.Helper()
	c, _, err := parseCountries(data)
	testkit.NoError(tb, err)
	return c
}

// code is the value of country or registered_country in a record.
func code(iso string) mmdbtype.Map { return mmdbtype.Map{"iso_code": mmdbtype.String(iso)} }

func TestCountry(t *testing.T) {
	c := countriesOf(t, countrytest.Database(t, "GeoLite2-Country", built, map[string]mmdbtype.Map{
		"198.51.100.0/25":   {"country": code("DE"), "registered_country": code("US")},
		"198.51.100.128/25": {"registered_country": code("GB"), "continent": mmdbtype.Map{"code": mmdbtype.String("EU")}},
		"203.0.113.0/26":    {"country": code("ZZ")},
		"203.0.113.64/26":   {"country": code("de")},
		"203.0.113.128/26":  {"country": mmdbtype.String("FR")},
		"203.0.113.192/26":  {},
		"192.0.2.0/24":      {"country": code("XK")},
		"2001:db8::/33":     {"country": code("JP")},
	}))

	for address, want := range map[string]string{
		"198.51.100.1":          "DE",
		"::ffff:198.51.100.1":   "DE",
		"198.51.100.200":        "GB",
		"203.0.113.1":           "", // no country
		"203.0.113.65":          "",
		"203.0.113.129":         "",
		"203.0.113.193":         "",
		"192.0.2.1":             "XK",
		"2001:db8::1":           "JP",
		"2001:db8::1%eth0":      "JP",
		"2001:db8:8000::1":      "",
		"127.0.0.1":             "",
		"::1":                   "",
		"::":                    "",
		"255.255.255.255":       "",
		"64:ff9b::198.51.100.1": "",
	} {
		got := c.Country(netip.MustParseAddr(address))
		if got != want || got != "" && !model.IsCountry(got) {
			t.Errorf("%s: %q, want %q", address, got, want)
		}
	}
	testkit.Equal(t, c.Country(netip.Addr{}), "", "no address")
}

// TestCountryAllocatesNothing keeps the cost of a hit low.
func TestCountryAllocatesNothing(t *testing.T) {
	c := countriesOf(t, germanyAndJapan(t))
	mapped := netip.AddrFrom16(inGermany.As16())
	testkit.Equal(t, testing.AllocsPerRun(100, func() { c.Country(inGermany); c.Country(inJapan); c.Country(mapped) }), 0, "allocations")
}

// FuzzCountries reads damaged databases, which are refused or answer with countries.
func FuzzCountries(f *testing.F) {
	f.Add(germanyAndJapan(f), uint32(1<<31))
	f.Add(countrytest.Owners(f, built), uint32(7))
	f.Add([]byte("\xab\xcd\xefMaxMind.com"), uint32(0))

	f.Fuzz(func(t *testing.T, data []byte, address uint32) {
		c, _, err := parseCountries(data)
		if err != nil {
			return
		}

		addr := netip.AddrFrom4([4]byte{byte(address >> 24), byte(address >> 16), byte(address >> 8), byte(address)})
		for _, a := range []netip.Addr{addr, inGermany, inJapan} {
			if country := c.Country(a); country != "" && !model.IsCountry(country) {
				t.Errorf("%s: %q", a, country)
			}
		}
	})
}

func BenchmarkCountry(b *testing.B) {
	random := rand.New(rand.NewPCG(1, 2))
	networks := make(map[string]string)
	for range 20_000 {
		addr := netip.AddrFrom4([4]byte{byte(1 + random.IntN(223)), byte(random.Uint32()), byte(random.Uint32())})
		networks[netip.PrefixFrom(addr, 24).String()] = model.Countries[random.IntN(len(model.Countries))]
	}
	c := countriesOf(b, countrytest.Countries(b, built, networks))

	addrs := make([]netip.Addr, 4096)
	for i := range addrs {
		addrs[i] = netip.AddrFrom4([4]byte{byte(1 + random.IntN(223)), byte(random.Uint32()), byte(random.Uint32()), 1})
	}

	b.ReportAllocs()
	i := 0
	for b.Loop() {
		c.Country(addrs[i%len(addrs)])
		i++
	}
}
