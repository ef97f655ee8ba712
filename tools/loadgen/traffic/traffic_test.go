package traffic

import (
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"github.com/tallygate/tallygate/tools/loadgen/target"
)

func TestMark(t *testing.T) {
	random := rand.New(rand.NewPCG(1, 2))
	for range 1000 {
		want := Parts{Run: uint16(random.Uint32()), connection: uint16(random.IntN(MaxConnections)),
			number: random.Uint32(), Kind: Kind(random.IntN(16))}
		m, ok := ParseMark(string(newMark(want).Append(nil)))
		if got := m.Parts(); !ok || got != want {
			t.Fatalf("%+v comes back as %+v", want, got)
		}
		if ms := m.EngagedMS(); ms < 1 || ms > 60_000 {
			t.Errorf("engaged %d ms", ms)
		}
	}

	for _, s := range []string{"", "0123456789abcde", "0123456789abcdefg", "0123456789abcdeg"} {
		if _, ok := ParseMark(s); ok {
			t.Errorf("%q is taken for a mark", s)
		}
	}
}

func testTraffic(seed uint64) *Traffic {
	return &Traffic{run: 9, Seed: seed, Host: "stats.example", Mix: Mixes["realistic"], Visitors: 100,
		Sites: []target.Site{{Key: "one", Domain: "one.example"},
			{Key: "two", Domain: "two.example", Secret: "svcs_x"}, {Key: "three", Domain: "three.example"}},
		features: target.Features{OwnEvents: true, Ecommerce: true}}
}

// requests returns the first n hits of a connection.
func requests(tr *Traffic, connection, n int) (all []string, kinds map[Kind]int) {
	m := NewMixer(tr, connection)
	kinds = make(map[Kind]int)
	for range n {
		h := m.hit()
		kinds[h.kind]++
		all = append(all, string(m.next(&h)))
	}

	return all, kinds
}

// TestMixIsRepeatable checks that the hits depend only on the seed and the connection.
func TestMixIsRepeatable(t *testing.T) {
	const n = 3000
	first, kinds := requests(testTraffic(1), 5, n)

	again, _ := requests(testTraffic(1), 5, n)
	if !slices.Equal(first, again) {
		t.Error("one seed gives two sequences")
	}

	for name, other := range map[string][]string{
		"another seed":       func() []string { r, _ := requests(testTraffic(2), 5, n); return r }(),
		"another connection": func() []string { r, _ := requests(testTraffic(1), 6, n); return r }(),
	} {
		if slices.Equal(first, other) {
			t.Errorf("%s gives the same sequence", name)
		}
	}

	for _, s := range Mixes["realistic"] {
		if want := s.permille * n / 1000; kinds[s.kind] < want/3 {
			t.Errorf("%d hits of kind %d in %d, want about %d", kinds[s.kind], s.kind, n, want)
		}
	}

	if strings.Count(strings.Join(first, ""), "/server.php") == 0 {
		t.Error("no purchase comes from a server")
	}
}

// TestMixIsWellFormed checks that every body is JSON unless truncated on purpose, and that marks
// are unique except where hits share one.
func TestMixIsWellFormed(t *testing.T) {
	m := NewMixer(testTraffic(3), 0)
	marks := make(map[Mark]bool)
	for range 3000 {
		h := m.hit()
		request := string(m.next(&h))
		head, body, _ := strings.Cut(request, "\r\n\r\n")
		if !strings.Contains(head, fmt.Sprintf("\r\nContent-Length: %d", len(body))) {
			t.Fatalf("a body of %d bytes under\n%s", len(body), head)
		}
		if h.kind != Bad && !json.Valid([]byte(body)) {
			t.Fatalf("kind %d: %s", h.kind, body)
		}
		if shares := h.kind == Engagement || h.kind == repetition; marks[h.mark] != shares {
			t.Fatalf("kind %d: mark %x was sent before: %v", h.kind, h.mark, !shares)
		}

		marks[h.mark] = true
		if isApp := strings.Contains(body, `"p":"/app/`); isApp != (h.kind == manual) {
			t.Fatalf("kind %d is of a page of the other kinds: %s", h.kind, body)
		}
		if h.kind != Engagement && h.kind != repetition && h.mark.Parts().Kind != h.kind {
			t.Fatalf("kind %d has the mark of kind %d", h.kind, h.mark.Parts().Kind)
		}
	}
}

// TestMixWithoutFeatures checks that unsupported hits are not sent.
func TestMixWithoutFeatures(t *testing.T) {
	tr := testTraffic(1)
	tr.features = target.Features{}
	_, kinds := requests(tr, 0, 2000)
	if kinds[own]+kinds[item]+kinds[purchase]+kinds[refund]+kinds[repetition] != 0 || kinds[automatic] < 100 {
		t.Errorf("kinds %v", kinds)
	}

	for name, mix := range Mixes {
		sum := 0
		for _, s := range mix {
			sum += s.permille
		}

		if sum != 1000 {
			t.Errorf("mix %s has %d of a thousand", name, sum)
		}
	}
}
