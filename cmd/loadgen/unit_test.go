package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"testing"
	"testing/iotest"
	"time"
)

func TestMark(t *testing.T) {
	random := rand.New(rand.NewPCG(1, 2))
	for range 1000 {
		want := parts{run: uint16(random.Uint32()), connection: uint16(random.IntN(maxConnections)), number: random.Uint32(), kind: kind(random.IntN(16))}
		m, ok := parseMark(string(newMark(want).append(nil)))
		if got := m.parts(); !ok || got != want {
			t.Fatalf("%+v comes back as %+v", want, got)
		}
		if ms := m.engagedMS(); ms < 1 || ms > 60_000 {
			t.Errorf("engaged %d ms", ms)
		}
	}

	for _, s := range []string{"", "0123456789abcde", "0123456789abcdefg", "0123456789abcdeg"} {
		if _, ok := parseMark(s); ok {
			t.Errorf("%q is taken for a mark", s)
		}
	}
}

func testTraffic(seed uint64) *traffic {
	return &traffic{run: 9, seed: seed, host: "stats.example", mix: mixes["realistic"], visitors: 100,
		sites:    []site{{Key: "one", Domain: "one.example"}, {Key: "two", Domain: "two.example", Secret: "svcs_x"}, {Key: "three", Domain: "three.example"}},
		features: features{OwnEvents: true, Ecommerce: true}}
}

// requests makes the first hits of a connection.
func requests(tr *traffic, connection, n int) (all []string, kinds map[kind]int) {
	m := newMixer(tr, connection)
	kinds = make(map[kind]int)
	for range n {
		h := m.hit()
		kinds[h.kind]++
		all = append(all, string(m.next(&h)))
	}

	return all, kinds
}

// TestMixIsRepeatable: the seed and the connection decide everything.
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

	for _, s := range mixes["realistic"] {
		if want := s.permille * n / 1000; kinds[s.kind] < want/3 {
			t.Errorf("%d hits of kind %d in %d, want about %d", kinds[s.kind], s.kind, n, want)
		}
	}

	if strings.Count(strings.Join(first, ""), "/server.php") == 0 {
		t.Error("no purchase comes from a server")
	}
}

// TestMixIsWellFormed: every body is JSON, except those that are cut on purpose, and no mark comes
// twice except where it must.
func TestMixIsWellFormed(t *testing.T) {
	m := newMixer(testTraffic(3), 0)
	marks := make(map[mark]bool)
	for range 3000 {
		h := m.hit()
		request := string(m.next(&h))
		head, body, _ := strings.Cut(request, "\r\n\r\n")
		if !strings.Contains(head, fmt.Sprintf("\r\nContent-Length: %d", len(body))) {
			t.Fatalf("a body of %d bytes under\n%s", len(body), head)
		}
		if h.kind != bad && !json.Valid([]byte(body)) {
			t.Fatalf("kind %d: %s", h.kind, body)
		}
		if shares := h.kind == engagement || h.kind == repetition; marks[h.mark] != shares {
			t.Fatalf("kind %d: mark %x was sent before: %v", h.kind, h.mark, !shares)
		}

		marks[h.mark] = true
		if isApp := strings.Contains(body, `"p":"/app/`); isApp != (h.kind == manual) {
			t.Fatalf("kind %d is of a page of the other kinds: %s", h.kind, body)
		}
		if h.kind != engagement && h.kind != repetition && h.mark.parts().kind != h.kind {
			t.Fatalf("kind %d has the mark of kind %d", h.kind, h.mark.parts().kind)
		}
	}
}

// TestMixWithoutFeatures: what the target does not offer is not sent.
func TestMixWithoutFeatures(t *testing.T) {
	tr := testTraffic(1)
	tr.features = features{}
	_, kinds := requests(tr, 0, 2000)
	if kinds[own]+kinds[item]+kinds[purchase]+kinds[refund]+kinds[repetition] != 0 || kinds[automatic] < 100 {
		t.Errorf("kinds %v", kinds)
	}

	for name, mix := range mixes {
		sum := 0
		for _, s := range mix {
			sum += s.permille
		}

		if sum != 1000 {
			t.Errorf("mix %s has %d of a thousand", name, sum)
		}
	}
}

func TestJournal(t *testing.T) {
	path := filepath.Join(t.TempDir(), "journal")
	head := journalHead{Run: 3, Seed: 4, Started: 5, Sites: make([]site, 300), Target: target{Email: "a@b.example", Password: "secret"}}

	if err := os.WriteFile(path, []byte("an old file that everybody may read"), 0o644); err != nil {
		t.Fatal(err)
	}

	j, err := createJournal(path, head)
	if err != nil {
		t.Fatal(err)
	}

	var want, got []entry
	for i := range 10_000 {
		e := entry{mark: mark(scramble(uint64(i))), site: uint16(i % 300), kind: kind(i % 12)}
		want = append(want, e)
		j.note(e)
	}

	if err := j.close(); err != nil {
		t.Fatal(err)
	}

	read := func() (journalHead, error) {
		got = nil
		return readJournal(path, func(e entry) error { got = append(got, e); return nil })
	}
	if back, err := read(); err != nil || !slices.Equal(got, want) || back.Run != 3 || back.Target != head.Target || len(back.Sites) != 300 {
		t.Errorf("read %d entries of %d, head %+v, %v", len(got), len(want), back, err)
	}
	if info, err := os.Stat(path); err != nil || info.Mode().Perm() != 0o600 {
		t.Errorf("mode %v, %v: it holds a password", info.Mode(), err)
	}
	if err := os.Truncate(path, func() int64 { info, _ := os.Stat(path); return info.Size() - 1 }()); err != nil {
		t.Fatal(err)
	}
	if _, err := read(); err == nil {
		t.Error("a journal that is cut off is read as whole")
	}
	if err := os.WriteFile(path, []byte("something else\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	if _, err := read(); err == nil {
		t.Error("another file is read as a journal")
	}
}

// TestReadRows: an export that breaks off is not taken for a whole one.
func TestReadRows(t *testing.T) {
	for text, want := range map[string]int{
		`[]`: 0, `[{"row_id":"1"},{"row_id":"2"}]`: 2,
		``: -1, `{}`: -1, `[`: -1, `[{"row_id":"1"}`: -1, `[{"row_id":"1"},`: -1, `[{"row_id":"1"},{"ro`: -1, `[{"row_id":"1"}}`: -1,
	} {
		rows, last, err := readRows(strings.NewReader(text), func(*row) error { return nil })
		if (err != nil) != (want < 0) || err == nil && rows != want || rows == 2 && last != "2" {
			t.Errorf("%s: %d rows up to %q, %v", text, rows, last, err)
		}
	}

	broken := errors.New("broken")
	if _, _, err := readRows(io.MultiReader(strings.NewReader(`[{"row_id":"1"}`), iotest.ErrReader(broken)), func(*row) error { return nil }); !errors.Is(err, broken) {
		t.Errorf("a broken connection: %v", err)
	}
}

// TestPointsUsedUp: who has no points left waits as long as the answer says, and goes on.
func TestPointsUsedUp(t *testing.T) {
	answers := []string{
		`{"errors":[{"message":"Used up.","extensions":{"code":"RATE_LIMITED","retryAfter":7}}]}`,
		`{"data":{"site":{"usage":{"period":"2026-11","pageviews":5}}}}`,
		`{"errors":[{"message":"Too often.","extensions":{"code":"RATE_LIMITED","retryAfter":900}}]}`,
		`{"errors":[{"message":"No.","extensions":{"code":"FORBIDDEN"}}]}`,
	}

	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		_, _ = io.WriteString(w, answers[0])
		answers = answers[1:]
	}))
	defer server.Close()

	a, err := newAccount(target{Control: server.URL})
	if err != nil {
		t.Fatal(err)
	}

	var waited []time.Duration
	a.wait = func(_ context.Context, d time.Duration) error { waited = append(waited, d); return nil }
	if used, err := a.usage(t.Context(), "x"); err != nil || used.Pageviews != 5 {
		t.Errorf("%+v, %v", used, err)
	}

	for _, code := range []string{"RATE_LIMITED", "FORBIDDEN"} {
		if _, err := a.usage(t.Context(), "x"); err == nil || !strings.Contains(err.Error(), code) {
			t.Errorf("%v, want %s", err, code)
		}
	}

	if !slices.Equal(waited, []time.Duration{7 * time.Second}) {
		t.Errorf("waited %v", waited)
	}
}

// TestReadLog: a line of any length is read, and the end of what was logged is kept.
func TestReadLog(t *testing.T) {
	logs := strings.NewReader("first\n" + strings.Repeat("x", 3<<20) + "\nlast\n")
	var s server
	s.readLog(logs)
	if kept := s.logged(); logs.Len() != 0 || !strings.HasSuffix(kept, "x\nlast\n") || len(kept) > 1<<20 {
		t.Errorf("%d bytes are not read, %d are kept", logs.Len(), len(kept))
	}
}

func TestParseAnswer(t *testing.T) {
	for _, test := range []struct {
		text   string
		status int
		body   string
		keep   bool
		whole  bool
		fails  bool
	}{
		{text: "HTTP/1.1 204 No Content\r\nDate: x\r\n\r\n", status: 204, keep: true, whole: true},
		{text: "HTTP/1.1 400 Bad Request\r\nContent-Length: 4\r\n\r\nbody", status: 400, body: "body", keep: true, whole: true},
		{text: "HTTP/1.1 503 Busy\r\nContent-Length: 0\r\nConnection: close\r\n\r\n", status: 503, whole: true},
		{text: "HTTP/1.1 400 Bad Request\r\nContent-Length: 4\r\n\r\nbod"},
		{text: "HTTP/1.1 204 No Con"},
		{text: ""},
		{text: "SSH-2.0-OpenSSH\r\n\r\n", fails: true},
		{text: "HTTP/1.1 abc No\r\n\r\n", fails: true},
		{text: "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n", fails: true},
		{text: "HTTP/1.1 200 OK\r\nContent-Length: x\r\n\r\n", fails: true},
	} {
		a, keep, whole, err := parseAnswer([]byte(test.text))
		if (err != nil) != test.fails || whole != test.whole || whole && (a.status != test.status || string(a.body) != test.body || keep != test.keep) {
			t.Errorf("%q: %+v, keep %v, whole %v, %v", test.text, a, keep, whole, err)
		}
	}
}

// TestConnection: answers that come in pieces are put together, and a connection that was closed is
// made anew.
func TestConnection(t *testing.T) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()

	long := strings.Repeat("x", 10_000)
	go func() {
		for _, pieces := range [][]string{{"HTTP/1.1 2", "04 No Content\r", "\n\r\n"}, {fmt.Sprintf("HTTP/1.1 400 Bad\r\nContent-Length: %d\r\n\r\n", len(long)), long[:5000], long[5000:]}, {"HTTP/1.1 "}} {
			c, err := l.Accept()
			if err != nil {
				return
			}

			_, _ = c.Read(make([]byte, 100))

			for _, piece := range pieces {
				_, _ = c.Write([]byte(piece))
			}

			_ = c.Close()
		}
	}()

	c := newConnection(l.Addr().String(), 5*time.Second)
	defer c.close()

	if a, err := c.do([]byte("hello")); err != nil || a.status != 204 {
		t.Errorf("%+v, %v", a, err)
	}

	c.close()

	if a, err := c.do([]byte("hello")); err != nil || a.status != 400 || string(a.body) != long {
		t.Errorf("status %d, %d bytes, %v", a.status, len(a.body), err)
	}

	c.close()

	if _, err := c.do([]byte("hello")); err == nil {
		t.Error("half an answer is taken for a whole one")
	}
	if c.net != nil {
		t.Error("a broken connection is kept")
	}
}

// TestEmptyVariables: an empty environment variable is an unset one.
func TestEmptyVariables(t *testing.T) {
	var want, got commands
	read := func(cli *commands) {
		t.Helper()
		parser, err := newParser(t.Context(), cli, quiet(), func(int) {})
		if err == nil {
			_, err = parser.Parse([]string{"run"})
		}
		if err != nil {
			t.Fatal(err)
		}
	}

	variables := []string{"LOADGEN_CONTROL", "LOADGEN_DATA", "LOADGEN_EMAIL", "LOADGEN_PASSWORD", "LOADGEN_TOKEN", "LOADGEN_CAPTCHA_SECRET"}
	for _, name := range variables {
		// so that the test's end restores it
		t.Setenv(name, "")

		if err := os.Unsetenv(name); err != nil {
			t.Fatal(err)
		}
	}

	read(&want)

	for _, name := range variables {
		t.Setenv(name, "")
	}

	read(&got)

	if !reflect.DeepEqual(got, want) || got.Run.Control == "" {
		t.Errorf("with empty variables: %+v, want %+v", got.Run, want.Run)
	}
}
