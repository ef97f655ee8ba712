package flood

import (
	"github.com/tallygate/tallygate/db/model"
	"github.com/tallygate/tallygate/tools/testkit"
	"math/rand/v2"
	"net/netip"
	"testing"
	"time"
)

// start is a Monday, 9:00.
var start = time.Date(2026, 11, 23, 9, 0, 0, 0, time.UTC)

// free is the smallest quota.
const free = 10_000

// TestFloodSparesABusyOffice checks that the limit affects no one in an office of 200 people behind
// one address. Each views 40 pages per hour with three hits each, and four times a day all of them
// return within five seconds.
func TestFloodSparesABusyOffice(t *testing.T) {
	const people = 200
	f, addr := New(1_000, 10), netip.MustParseAddr("198.51.100.7")
	random := rand.New(rand.NewPCG(1, 2))
	sent := 0
	hit := func(at time.Time, n int) {
		for range n {
			if sent++; !f.Allow(1, free, addr, at) {
				t.Fatalf("hit %d at %v is over the limit", sent, at)
			}
		}
	}
	for second := range 8 * 60 * 60 {
		at := start.Add(time.Duration(second) * time.Second)

		if second%(2*60*60) < 5 {
			hit(at, people)
			continue
		}

		for range people {
			if random.IntN(90) == 0 {
				hit(at, 3)
			}
		}
	}

	if sent < 180_000 {
		t.Errorf("%d hits were sent, the office is not busy", sent)
	}
}

// TestFloodLeavesAMonth checks how long a client that sends as fast as it can needs to use up a
// site's monthly quota. Of the largest quotas it sends a share: after the burst the rate is
// constant.
func TestFloodLeavesAMonth(t *testing.T) {
	for _, test := range []struct {
		name  string
		addrs []string // used in turn
		quota int64
		hits  int64 // how many of the quota are used up
		least time.Duration
	}{
		{"one address, FREE", []string{"203.0.113.1"}, 10_000, 10_000, 15 * time.Minute},
		{"a /24, FREE", []string{"203.0.113.1", "203.0.113.77", "203.0.113.254"}, 10_000, 10_000, 15 * time.Minute},
		{"an IPv6 /64, FREE", []string{"2001:db8:1:1::1", "2001:db8:1:1:ffff::2"}, 10_000, 10_000, 15 * time.Minute},
		{"an IPv6 /48, FREE", []string{
			"2001:db8:1:1::1", "2001:db8:1:2::1", "2001:db8:1:3::1", "2001:db8:1:4::1", "2001:db8:1:5::1",
			"2001:db8:1:6::1",
		},
			10_000, 10_000, 150 * time.Second},
		{"one address, PRO_100K", []string{"203.0.113.1"}, 100_000, 50_000, 81 * time.Minute},
		{"one address, ENTERPRISE with 10 million", []string{"203.0.113.1"}, 10_000_000, 100_000, 81 * time.Minute},
	} {
		t.Run(test.name, func(t *testing.T) {
			f := New(1_000, 10)
			var addrs []netip.Addr
			for _, addr := range test.addrs {
				addrs = append(addrs, netip.MustParseAddr(addr))
			}

			var used int64
			now := start

			for used < test.hits {
				before := used

				for refused := 0; refused < len(addrs) && used < test.hits; {
					for _, addr := range addrs {
						if f.Allow(1, test.quota, addr, now) {
							used, refused = used+1, 0
						} else {
							refused++
						}
					}
				}

				if used == before && now.After(start.Add(time.Minute)) {
					t.Fatalf("after %v no hit is granted", now.Sub(start))
				}

				now = now.Add(time.Second)
			}

			if took := now.Sub(start); took < test.least || took > test.least*11/10 {
				t.Errorf("%d hits of a month take %v, want %v", test.hits, took, test.least)
			}
		})
	}
}

// TestFloodNetworks checks that sites and networks count separately.
func TestFloodNetworks(t *testing.T) {
	f := New(5, 1)
	granted := func(siteID model.SiteID, addr netip.Addr) (n int) {
		for range 30 {
			if f.Allow(siteID, 0, addr, start) {
				n++
			}
		}
		return n
	}
	for _, test := range []struct {
		site model.SiteID
		addr string
		want int
	}{
		{1, "203.0.113.1", 5}, {1, "203.0.113.255", 0}, {1, "203.0.114.1", 5}, {2, "203.0.113.1", 5},
		{1, "2001:db8:1:1::1", 5}, {1, "2001:db8:1:1::2", 0}, {1, "2001:db8:1:2::1", 5}, {1, "2001:db8:1:3::1", 5}, {1, "2001:db8:1:4::1", 5},
		{1, "2001:db8:1:5::1", 0}, {1, "2001:db8:2:1::1", 5}, {2, "2001:db8:1:5::1", 5}, {1, "", 5},
	} {
		addr, _ := netip.ParseAddr(test.addr)
		testkit.Equal(t, granted(test.site, addr), test.want, "site %d, %q: granted", test.site, test.addr)
	}
}

// The defaults of the limit of server-side events.
const (
	serverBurst = 10_000
	serverRate  = 50
)

// TestServerFloodSparesASaleDay checks that the limit affects no shop on its busiest day. It has
// the largest plan, with 5 million hits a month, and sends all of them from its servers: a fifth of
// the month on one day, 15 percent of these in the first hour, and 12,000 of these in the first
// minute, when the sale opens.
func TestServerFloodSparesASaleDay(t *testing.T) {
	const month = 5_000_000
	const day, hour, minute = month / 5, month / 5 * 15 / 100, 12_000
	f := New(serverBurst, serverRate)
	sent := 0
	send := func(from, length time.Duration, events int) {
		for i := range events {
			at := start.Add(from + length*time.Duration(i)/time.Duration(events))
			if sent++; !f.AllowServer(1, month, at) {
				t.Fatalf("event %d at %v is over the limit", sent, at)
			}
		}
	}

	send(0, time.Minute, minute)
	send(time.Minute, 59*time.Minute, hour-minute)
	send(time.Hour, 23*time.Hour, day-hour)
}

// TestServerFloodStopsALoop checks that a program that sends in an endless loop, 3,000 calls a
// second, stores 50 a second after its burst, and that a larger quota raises both.
func TestServerFloodStopsALoop(t *testing.T) {
	for _, test := range []struct{ quota, times int64 }{
		{free, 1}, {5_000_000, 1}, {9_999_999, 1}, {10_000_000, 2}, {50_000_000, 10}, {model.MaxMonthlyPageviews, 1},
	} {
		f, granted := New(serverBurst, serverRate), int64(0)
		for i := range 3_000 * 60 {
			if f.AllowServer(1, test.quota, start.Add(time.Second*time.Duration(i)/3_000)) {
				granted++
			}
		}

		if want := (serverBurst + 60*serverRate) * test.times; granted > want || granted < want-test.times {
			t.Errorf("quota %d: %d events in a minute, want %d", test.quota, granted, want)
		}
	}
}

// TestServerFloodSites checks that sites count separately.
func TestServerFloodSites(t *testing.T) {
	f := New(5, 1)
	for _, site := range []model.SiteID{1, 2, 1 << 40} {
		granted := 0
		for range 30 {
			if f.AllowServer(site, free, start) {
				granted++
			}
		}
		testkit.Equal(t, granted, 5, "site %d: granted", site)
	}
}

func TestFloodOff(t *testing.T) {
	if New(0, 10) != nil {
		t.Error("a burst of 0 is a limit")
	}
	if f := New(1_000_000_000, 1); !f.Allow(1, free, netip.MustParseAddr("203.0.113.1"), start) {
		t.Error("the largest burst grants nothing")
	}
}

// BenchmarkFlood measures what the flood limit adds to a hit.
func BenchmarkFlood(b *testing.B) {
	for _, of := range []struct {
		name  string
		addr  func(n int) netip.Addr
		burst int
	}{
		{"ipv4", func(n int) netip.Addr { return netip.AddrFrom4([4]byte{10, byte(n >> 8), byte(n), 1}) }, 1_000_000_000},
		{"ipv6", func(n int) netip.Addr { return netip.AddrFrom16([16]byte{0x20, 1, byte(n >> 8), byte(n), 15: 1}) }, 1_000_000_000},
		{"refused", func(n int) netip.Addr { return netip.AddrFrom4([4]byte{10, 0, 0, byte(n)}) }, 1},
	} {
		b.Run(of.name, func(b *testing.B) {
			f, now := New(of.burst, 10), time.Now()
			b.ReportAllocs()
			b.RunParallel(func(p *testing.PB) {
				for n := rand.IntN(1 << 16); p.Next(); n++ {
					f.Allow(1, free, of.addr(n), now)
				}
			})
		})
	}

	b.Run("server", func(b *testing.B) {
		f, now := New(1_000_000_000, 10), time.Now()
		b.ReportAllocs()
		b.RunParallel(func(p *testing.PB) {
			for n := rand.Int64N(1 << 16); p.Next(); n++ {
				f.AllowServer(model.SiteID(n&(1<<16-1)), free, now)
			}
		})
	})

	// B/op is the memory of a limit.
	b.Run("memory", func(b *testing.B) {
		b.ReportAllocs()
		for b.Loop() {
			New(1_000, 10)
		}
	})
}
