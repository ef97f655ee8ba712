package jobs_test

import (
	"context"
	"fmt"
	"net"
	"net/netip"
	"testing"

	"golang.org/x/net/dns/dnsmessage"

	"github.com/tallygate/tallygate/db"
	"github.com/tallygate/tallygate/db/model"
	"github.com/tallygate/tallygate/jobs"
	"github.com/tallygate/tallygate/tools/dbtest"
	"github.com/tallygate/tallygate/tools/testkit"
)

// nameServer answers queries for addresses. asked counts the earlier queries of each name.
type nameServer struct {
	conn  net.PacketConn
	asked map[string]int
	// answer returns the addresses of a name at its nth query of type A.
	answer func(name string, n int) []netip.Addr
}

func startNameServer(t *testing.T, answer func(name string, n int) []netip.Addr) *net.Resolver {
	t.Helper()

	conn, err := net.ListenPacket("udp", "127.0.0.1:0")
	testkit.NoError(t, err)

	s := &nameServer{conn: conn, asked: make(map[string]int), answer: answer}
	done := make(chan struct{})
	go func() {
		defer close(done)
		s.serve()
	}()

	t.Cleanup(func() {
		conn.Close()
		<-done
	})

	return &net.Resolver{PreferGo: true, Dial: func(ctx context.Context, _, _ string) (net.Conn, error) {
		return new(net.Dialer).DialContext(ctx, "udp", conn.LocalAddr().String())
	}}
}

func (s *nameServer) serve() {
	buffer := make([]byte, 1500)
	for {
		n, from, err := s.conn.ReadFrom(buffer)
		if err != nil {
			return
		}

		var message dnsmessage.Message
		if message.Unpack(buffer[:n]) != nil || len(message.Questions) != 1 {
			continue
		}

		message.Response, message.Authoritative, message.Additionals = true, true, nil
		question := message.Questions[0]
		name := question.Name.String()
		for _, addr := range s.answer(name, s.asked[name]) {
			header := dnsmessage.ResourceHeader{Name: question.Name, Class: question.Class, Type: question.Type}

			switch {
			case addr.Is4() && question.Type == dnsmessage.TypeA:
				message.Answers = append(
					message.Answers,
					dnsmessage.Resource{Header: header, Body: &dnsmessage.AResource{A: addr.As4()}},
				)
			case addr.Is6() && question.Type == dnsmessage.TypeAAAA:
				message.Answers = append(
					message.Answers,
					dnsmessage.Resource{Header: header, Body: &dnsmessage.AAAAResource{AAAA: addr.As16()}},
				)
			}
		}

		if question.Type == dnsmessage.TypeA {
			s.asked[name]++
		}
		if answer, err := message.Pack(); err == nil {
			_, _ = s.conn.WriteTo(answer, from)
		}
	}
}

// TestBlockedAtConnect: an address that must not be called is not called, whatever name leads to it
// when the call is made, and nothing about it is shown. The receiver listens on loopback and must
// never get a call.
func TestBlockedAtConnect(t *testing.T) {
	t.Parallel()

	a := newAuthority(t)
	denied := map[string][]string{
		"loopback.example": {
			"127.0.0.1",
		}, "mapped.example": {"::ffff:127.0.0.1"}, "six.example": {"::1"}, "any.example": {"0.0.0.0"},
		"private.example": {"10.0.0.1"}, "meta.example": {"169.254.169.254"}, "cgnat.example": {"100.100.100.200"},
		"nat64.example": {"64:ff9b::7f00:1"}, "sixtofour.example": {"2002:7f00:1::1"}, "teredo.example": {"2001:0:7f00:1::1"},
		"compatible.example": {
			"::127.0.0.1",
		}, "site.example": {"fec0::1"}, "unique.example": {"fd00::1"}, "link.example": {"fe80::1"},
		"both.example": {"127.0.0.1", "::1"},
	}

	dbtest.Each(t, func(t *testing.T, d *db.DB) {
		r := newReceiver(t, a, status(200))
		_, port, _ := net.SplitHostPort(r.Listener.Addr().String())
		resolver := startNameServer(t, func(name string, _ int) []netip.Addr {
			var addrs []netip.Addr
			for _, text := range denied[name[:len(name)-1]] {
				addrs = append(addrs, netip.MustParseAddr(text))
			}
			return addrs
		})

		sites := map[string]*model.Site{}
		for name := range denied {
			sites[name] = newSite(t, d, name, "https://"+name+":"+port+"/", "")
		}

		// An address that was never checked when it was set, and a port that webhooks do not use.
		sites["literal"] = newSite(t, d, "literal.example", r.URL, "")
		sites["port"] = newSite(t, d, "port.example", "https://93.184.216.34:22/", "")

		// A name without an address looks the same. Otherwise tenants could find out which names
		// exist in the operator's network.
		sites["nowhere"] = newSite(t, d, "nowhere.example", "https://nowhere.example:"+port+"/", "")
		ids := map[string]int64{}
		for name, site := range sites {
			ids[name] = due(t, d, site, noon).ID
		}

		clock := newFastClock(speed)
		startQuick(t, d, a, clock.Now, jobs.Resolve(resolver), jobs.Allow())

		for name, site := range sites {
			log := awaitLast(t, d, clock, site, ids[name])
			for _, attempt := range log.Attempts {
				if attempt.Error != model.AttemptNoAddress || attempt.Status != 0 || attempt.Answer != "" {
					t.Errorf("%s: attempt %+v, want it blocked, without a response", name, *attempt)
				}
			}

			if log.State != model.DeliveryFailed || len(log.Attempts) != model.MaxAttempts {
				t.Errorf("%s: %s after %d attempts", name, log.State, len(log.Attempts))
			}
		}

		if n := len(r.all()); n != 0 {
			t.Errorf("the receiver on loopback was called %d times", n)
		}
	})
}

// twoListeners listens on one port of 127.0.0.1 and 127.0.0.2. It tries several ports, since other
// tests may use either address.
func twoListeners(t *testing.T) (here, there net.Listener, port string) {
	t.Helper()

	for range 20 {
		here, err := net.Listen("tcp", "127.0.0.1:0")
		testkit.NoError(t, err)

		_, port, _ := net.SplitHostPort(here.Addr().String())
		if there, err := net.Listen("tcp", "127.0.0.2:"+port); err == nil {
			return here, there, port
		}

		here.Close()
	}

	t.Fatal("no port is free on both addresses")
	return nil, nil, ""
}

// TestRebinding: the address that is connected to is checked, even if a name changes between two
// queries. Of several addresses, only the permitted addresses are called.
func TestRebinding(t *testing.T) {
	t.Parallel()

	a := newAuthority(t)
	dbtest.Each(t, func(t *testing.T, d *db.DB) {
		here, there, port := twoListeners(t)

		// On 127.0.0.1, which is not permitted here.
		trap := newReceiverOn(t, a, here, status(200))
		good := newReceiverOn(t, a, there, status(200))
		bad, ok := netip.MustParseAddr("127.0.0.1"), netip.MustParseAddr("127.0.0.2")
		resolver := startNameServer(t, func(name string, n int) []netip.Addr {
			switch name {
			case "mixed.example.":
				return []netip.Addr{netip.MustParseAddr("::1"), bad, ok}
			case "rebind.example.":
				return []netip.Addr{[]netip.Addr{bad, bad, ok}[min(n, 2)]}
			}
			return nil
		})

		clock := newFastClock(speed)
		mixed := newSite(t, d, "mixed.example", "https://mixed.example.:"+port+"/", "")
		rebind := newSite(t, d, "rebind.example", "https://rebind.example.:"+port+"/", "")
		first, second := due(t, d, mixed, noon), due(t, d, rebind, noon)
		startQuick(t, d, a, clock.Now, jobs.Resolve(resolver), jobs.Allow(netip.PrefixFrom(ok, 32)))

		if log := awaitEnd(t, d, mixed, first.ID); log.State != model.DeliveryDelivered || len(log.Attempts) != 1 {
			t.Errorf("mixed addresses: %s after %d attempts", log.State, len(log.Attempts))
		}

		log := awaitEnd(t, d, rebind, second.ID)
		var classes []string
		for _, attempt := range log.Attempts {
			classes = append(classes, attempt.Error)
		}

		if got, want := fmt.Sprint(classes), "[no_address no_address ]"; got != want {
			t.Errorf("a name that changes: attempts %s, want %s", got, want)
		}
		if n := len(trap.all()); n != 0 {
			t.Errorf("the forbidden address was called %d times", n)
		}
		if n := len(good.all()); n != 2 {
			t.Errorf("the permitted address was called %d times, want twice", n)
		}
	})
}
