package visitor_test

import (
	"encoding/hex"
	"net/netip"
	"sync"
	"testing"

	"github.com/tallygate/tallygate/dataplane/analytics/visitor"
	"github.com/tallygate/tallygate/db/model"
)

var (
	secret = []byte("0123456789abcdef0123456789abcdef")
	salt   = []byte("fedcba9876543210")
	addr   = netip.MustParseAddr("203.0.113.9")
)

// frozenID was computed with another implementation of HMAC-SHA256.
const frozenID = "0532fec0db11b354"

const browser = "Mozilla/5.0 (X11; Linux x86_64) AppleWebKit/537.36"

// TestIDIsFrozen pins the computation. A release that changed it would count every visitor of its
// day twice.
func TestIDIsFrozen(t *testing.T) {
	id := visitor.NewDayKey(secret, salt, 20777).ID(1, addr, browser)
	if got, want := hex.EncodeToString(id[:]), frozenID; got != want {
		t.Errorf("visitor id %s, want %s", got, want)
	}
}

func TestIDDependsOnEachInput(t *testing.T) {
	base := visitor.NewDayKey(secret, salt, 20777).ID(1, addr, browser)
	for name, other := range map[string]model.VisitorID{
		"day":        visitor.NewDayKey(secret, salt, 20778).ID(1, addr, browser),
		"salt":       visitor.NewDayKey(secret, []byte("another salt 123"), 20777).ID(1, addr, browser),
		"secret":     visitor.NewDayKey([]byte("another secret"), salt, 20777).ID(1, addr, browser),
		"site":       visitor.NewDayKey(secret, salt, 20777).ID(2, addr, browser),
		"address":    visitor.NewDayKey(secret, salt, 20777).ID(1, addr.Next(), browser),
		"user agent": visitor.NewDayKey(secret, salt, 20777).ID(1, addr, browser+" "),
	} {
		if other == base {
			t.Errorf("another %s gives the same visitor id", name)
		}
	}
}

func TestOneAddressWrittenTwoWays(t *testing.T) {
	key := visitor.NewDayKey(secret, salt, 20777)
	plain, mapped := key.ID(1, addr, browser), key.ID(1, netip.MustParseAddr("::ffff:203.0.113.9"), browser)
	if plain != mapped {
		t.Errorf("IPv4 %x and IPv4-mapped %x differ", plain, mapped)
	}

	scoped, bare := netip.MustParseAddr("fe80::1%eth0"), netip.MustParseAddr("fe80::1")
	if a, b := key.ID(1, scoped, browser), key.ID(1, bare, browser); a != b {
		t.Errorf("with zone %x and without %x differ", a, b)
	}
}

func TestIDFromManyGoroutines(t *testing.T) {
	key := visitor.NewDayKey(secret, salt, 20777)
	want := key.ID(1, addr, browser)

	var wg sync.WaitGroup
	for range 8 {
		wg.Go(func() {
			for range 1_000 {
				if got := key.ID(1, addr, browser); got != want {
					t.Errorf("got %x, want %x", got, want)
					return
				}
			}
		})
	}

	wg.Wait()
}

func BenchmarkID(b *testing.B) {
	key := visitor.NewDayKey(secret, salt, 20777)
	b.ReportAllocs()
	for b.Loop() {
		key.ID(1, addr, browser)
	}
}
