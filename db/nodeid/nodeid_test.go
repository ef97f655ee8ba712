package nodeid_test

import (
	"bytes"
	"encoding/base64"
	"encoding/binary"
	"fmt"
	"math"
	"math/rand/v2"
	"strings"
	"testing"

	"github.com/tallygate/tallygate/db/model"
	"github.com/tallygate/tallygate/db/nodeid"
	"github.com/tallygate/tallygate/tools/testkit"
)

func nodeIDs(t testing.TB, key string) *nodeid.IDs {
	t.Helper()
	ids, err := nodeid.New(key)
	testkit.NoError(t, err)
	return ids
}

var (
	aNodeKey     = strings.Repeat("0f", nodeid.KeySize)
	otherNodeKey = strings.Repeat("1e", nodeid.KeySize)
)

// TestNodeIDsAreStable pins the format, because clients store ids.
func TestNodeIDsAreStable(t *testing.T) {
	ids := nodeIDs(t, aNodeKey)
	for got, want := range map[string]string{
		ids.Of(nodeid.Site, 1):                      "site_K7T3HQVHSncJ14oUpdLsxQ",
		ids.Of(nodeid.User, math.MaxInt64):          "user_y33lo3NpIiLvwgAmpbFbyw",
		ids.OfDelivery(7, 890221363200002549):       "delivery_Wqqwmq7mBzUP8ts6QYFqRA",
		ids.Of(nodeid.AfterSitekey, 1):              "after_4rj82NQ_YRb9jBwX3pu64A",
		ids.Of(nodeid.Erasure, 1):                   "erasure_-iytXsu1CbMLTJT5LZ94KA",
		nodeIDs(t, otherNodeKey).Of(nodeid.Site, 1): "site_GW91g_-J55T2ZlM-eo7bxQ",
	} {
		testkit.Equal(t, got, want, "got")
	}
}

func TestNodeIDsRoundTrip(t *testing.T) {
	ids := nodeIDs(t, aNodeKey)
	for _, number := range []int64{1, 2, 255, 1 << 40, math.MaxInt64} {
		id := ids.Of(nodeid.Site, number)
		if got, ok := ids.Parse(nodeid.Site, id); !ok || got != number || ids.KindOf(id) != nodeid.Site {
			t.Errorf("%s is %d, %v, want %d", id, got, ok, number)
		}

		for _, site := range []model.SiteID{1, 7, 1<<56 - 1} {
			id := ids.OfDelivery(site, number)
			if gotSite, got, ok := ids.ParseDelivery(id); !ok || gotSite != site || got != number {
				t.Errorf("%s is %d of site %d, %v, want %d of %d", id, got, gotSite, ok, number, site)
			}
		}
	}
}

func TestOtherTextsAreNotNodeIDs(t *testing.T) {
	ids := nodeIDs(t, aNodeKey)
	id := ids.Of(nodeid.Site, 42)
	body := strings.TrimPrefix(id, "site_")
	for _, bad := range []string{
		"", "42", "U2l0ZTo0Mg==", body, "site_", "site_" + body[1:], "sitekey_" + body, "user_" + body, id + "=", id + "\n", " " + id,
		"site_" + body[:5] + "\n" + body[5:], strings.ToUpper(id), "site_" + strings.Repeat("A", 22), strings.Repeat("A", 100_000),
		ids.Of(nodeid.User, 42), ids.Of(nodeid.Site, 0), ids.Of(nodeid.Site, -1), ids.Of(nodeid.AfterSite, 42),
		ids.OfDelivery(42, 42), nodeIDs(t, otherNodeKey).Of(nodeid.Site, 42),
	} {
		if got, ok := ids.Parse(nodeid.Site, bad); ok {
			t.Errorf("%q is read as %d", bad, got)
		}
	}

	for _, bad := range []string{"", "x", id, ids.Of(nodeid.Delivery, 7), ids.OfDelivery(0, 1), ids.OfDelivery(1, 0), ids.OfDelivery(7, 1) + "="} {
		if site, got, ok := ids.ParseDelivery(bad); ok {
			t.Errorf("%q is read as delivery %d of site %d", bad, got, site)
		}
	}

	for _, key := range []string{"", "0f", aNodeKey + "0f", strings.Repeat("xx", nodeid.KeySize)} {
		if _, err := nodeid.New(key); err == nil {
			t.Errorf("the key %q is accepted", key)
		}
	}
}

// TestNodeIDsRevealNothing checks that ids of neighbouring rows differ in about half of their bits,
// so that they reveal neither numbers nor order.
func TestNodeIDsRevealNothing(t *testing.T) {
	ids := nodeIDs(t, aNodeKey)
	raw := func(id string) []byte {
		b, err := base64.RawURLEncoding.DecodeString(id[len(id)-22:])
		if err != nil || len(b) != 16 {
			t.Fatalf("%q: %v", id, err)
		}
		return b
	}

	same, all := 0, 0

	for n := int64(1); n < 1000; n++ {
		a, b := raw(ids.Of(nodeid.Site, n)), raw(ids.Of(nodeid.Site, n+1))
		if bytes.Contains(a, []byte{0, 0, 0}) {
			t.Errorf("site %d: %x", n, a)
		}

		for i := range a {
			for bit := range 8 {
				all++

				if (a[i]^b[i])>>bit&1 == 0 {
					same++
				}
			}
		}
	}

	if share := float64(same) / float64(all); share < 0.48 || share > 0.52 {
		t.Errorf("neighbours share %.3f of their bits, want about half", share)
	}
}

func FuzzNodeIDs(f *testing.F) {
	ids := nodeIDs(f, aNodeKey)
	f.Add(ids.Of(nodeid.Site, 1))
	f.Add(ids.OfDelivery(1, 1))
	f.Fuzz(func(t *testing.T, s string) {
		kind := ids.KindOf(s)
		if id, ok := ids.Parse(kind, s); ok && ids.Of(kind, id) != s {
			t.Errorf("%q is read as %d, which is written %q", s, id, ids.Of(kind, id))
		}
		if site, id, ok := ids.ParseDelivery(s); ok && ids.OfDelivery(site, id) != s {
			t.Errorf("%q is read as %d of %d, which is written %q", s, id, site, ids.OfDelivery(site, id))
		}
	})
}

func BenchmarkNodeID(b *testing.B) {
	ids := nodeIDs(b, aNodeKey)
	b.ReportAllocs()
	for b.Loop() {
		ids.Of(nodeid.Site, 42)
	}
}

// TestStopSecrets: secrets keep their channel and its confirmation, and of many wrong ones not one
// is accepted.
func TestStopSecrets(t *testing.T) {
	ids := nodeIDs(t, aNodeKey)
	for _, n := range []int64{1, 7, 1<<40 - 1} {
		since := model.Instant(1795168800000000 + n)
		if id, at, ok := ids.ParseChannelStop(ids.OfChannelStop(n, since)); !ok || id != n || at != since {
			t.Errorf("got channel %d of %d, %v; want %d of %d", id, at, ok, n, since)
		}
	}
	for _, n := range []int64{0, 1 << 40} {
		if id, at, ok := ids.ParseChannelStop(ids.OfChannelStop(n, 1)); ok {
			t.Errorf("the secret of channel %d is accepted as %d of %d", n, id, at)
		}
	}

	random := rand.New(rand.NewPCG(1, 2))
	for range 100_000 {
		var block [16]byte
		binary.BigEndian.PutUint64(block[:], random.Uint64())
		binary.BigEndian.PutUint64(block[8:], random.Uint64())
		wrong := "stop_" + base64.RawURLEncoding.EncodeToString(block[:])
		if id, _, ok := ids.ParseChannelStop(wrong); ok {
			t.Fatalf("the wrong secret %s is accepted as channel %d", wrong, id)
		}
	}
}

// TestFingerprint: the hashes depend on the key, the purpose and the text, and on nothing else.
func TestFingerprint(t *testing.T) {
	t.Parallel()
	ids, other := nodeIDs(t, strings.Repeat("ab", 32)), nodeIDs(t, strings.Repeat("cd", 32))
	seen := map[string]string{}
	for _, pair := range [][2]string{{"a", "text"}, {"b", "text"}, {"a", "text "}, {"a text", ""}, {"", "a text"}, {"a", ""}} {
		for name, n := range map[string]*nodeid.IDs{"one": ids, "other": other} {
			hash := n.Fingerprint(pair[0], pair[1])
			call := fmt.Sprintf("%s %q", name, pair)
			if len(hash) != 32 || !bytes.Equal(hash, n.Fingerprint(pair[0], pair[1])) {
				t.Errorf("%s has %d bytes, or changes", call, len(hash))
			}
			testkit.Equal(t, seen[string(hash)], "", "%s has the hash of", call)
			seen[string(hash)] = call
		}
	}
}
