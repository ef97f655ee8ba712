package token_test

import (
	"bytes"
	"encoding/base64"
	"strings"
	"testing"
	"time"

	"github.com/tallygate/tallygate/dataplane/captcha/token"
	"github.com/tallygate/tallygate/tools/testkit"
)

var (
	issued = time.Date(2026, 11, 21, 12, 0, 0, 123_000_000, time.UTC)
	secret = []byte("a secret for tests, 32 bytes or more")
	sample = token.Token{Sitekey: token.SitekeyOf("svck_sample"), Issued: issued, ID: [16]byte{1, 2, 3, 255}, Hostname: "www.example.com"}
)

func signer(tb testing.TB, key token.Key) *token.Signer {
	tb.Helper()
	s, err := token.New(key)
	testkit.NoError(tb, err)
	return s
}

func TestRoundTrip(t *testing.T) {
	r := signer(t, token.Key{ID: 1, Secret: secret})
	for name, want := range map[string]token.Token{
		"usual":             sample,
		"no sitekey":        {Issued: issued},
		"any sitekey":       {Sitekey: token.Sitekey{255, 255, 255, 255, 255, 255, 255, 255}, Issued: issued, Hostname: "a.b"},
		"longest host name": {Sitekey: token.Sitekey{7: 1}, Issued: issued, Hostname: strings.Repeat("a", token.MaxHostname)},
	} {
		s := r.Sign(&want)
		if got, err := r.Read(s); err != nil || got != want {
			t.Errorf("%s: read %+v, %v; want %+v", name, got, err, want)
		}
		if len(s) > 2048 || strings.Trim(s, "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789_-") != "" {
			t.Errorf("%s: %d characters: %s", name, len(s), s)
		}
	}

	long := sample
	long.Hostname = strings.Repeat("a", token.MaxHostname+1)
	if got, err := r.Read(r.Sign(&long)); err != nil || got.Hostname != "" {
		t.Errorf("a host name that is too long: read %q, %v; want none", got.Hostname, err)
	}
}

// TestKnownToken pins the format, so that a token that was issued before an update is accepted
// after it.
func TestKnownToken(t *testing.T) {
	r := signer(t, token.Key{ID: 1, Secret: secret})
	const known = "AgEUyMIicjo1bwAAAaH9-kZ7AQID_wAAAAAAAAAAAAAAAHd3dy5leGFtcGxlLmNvbbWaL6SUKwUiNlQ3jpU2p5w"
	testkit.Equal(t, r.Sign(&sample), known, "signed")
}

func TestEveryChangedBitIsRefused(t *testing.T) {
	r := signer(t, token.Key{ID: 1, Secret: secret})
	raw, err := base64.RawURLEncoding.DecodeString(r.Sign(&sample))
	testkit.NoError(t, err)

	for bit := range 8 * len(raw) {
		changed := bytes.Clone(raw)
		changed[bit/8] ^= 1 << (bit % 8)
		if got, err := r.Read(base64.RawURLEncoding.EncodeToString(changed)); err != token.ErrInvalid || got != (token.Token{}) {
			t.Errorf("bit %d: read %+v, %v; want ErrInvalid and nothing", bit, got, err)
		}
	}
}

func TestOtherTextsAreRefused(t *testing.T) {
	r := signer(t, token.Key{ID: 1, Secret: secret})
	s := r.Sign(&sample)
	for name, text := range map[string]string{
		"empty": "", "null": "null", "undefined": "undefined", "cut": s[:len(s)-1], "longer": s + "A", "padded": s + "=",
		"line break": s[:10] + "\n" + s[10:], "space": " " + s, "standard alphabet": strings.Repeat("+/", 40),
		"long": strings.Repeat("A", 100_000), "zeros": strings.Repeat("A", 80), "not UTF-8": s[:20] + "\xff" + s[21:],
		"another key": signer(t, token.Key{ID: 1, Secret: []byte("another secret of enough bytes")}).Sign(&sample),
		"version 1":   "AQEAAAAAAAAAKgAAAaH9-kZ7AQID_wAAAAAAAAAAAAAAAHd3dy5leGFtcGxlLmNvbZixkX0V6y2cIZBbRtnvgEU",
		"another id":  signer(t, token.Key{ID: 2, Secret: secret}).Sign(&sample),
	} {
		if _, err := r.Read(text); err != token.ErrInvalid {
			t.Errorf("%s: %v, want ErrInvalid", name, err)
		}
	}
}

func TestShortSecretsAreRefused(t *testing.T) {
	if _, err := token.New(token.Key{ID: 1, Secret: secret[:15]}); err == nil {
		t.Error("a short secret is accepted")
	}
}

func TestExpiry(t *testing.T) {
	for _, test := range []struct {
		after time.Duration
		want  bool
	}{
		{-token.MaxSkew - time.Millisecond, true}, {-token.MaxSkew, false}, {0, false},
		{token.Lifetime - time.Millisecond, false}, {token.Lifetime, true}, {100 * 365 * 24 * time.Hour, true},
	} {
		testkit.Equal(t, sample.Expired(issued.Add(test.after)), test.want, "%v after its issue expired", test.after)
	}
}

func FuzzRead(f *testing.F) {
	r := signer(f, token.Key{ID: 1, Secret: secret})
	f.Add(r.Sign(&sample))
	f.Add("null")
	f.Add(strings.Repeat("A", 67))
	f.Fuzz(func(t *testing.T, s string) {
		got, err := r.Read(s)
		if err == nil && r.Sign(&got) != s {
			t.Errorf("%q reads as %+v, which is written otherwise", s, got)
		}
		if err != nil && got != (token.Token{}) {
			t.Errorf("%q: %+v and an error", s, got)
		}
	})
}

func FuzzSign(f *testing.F) {
	r := signer(f, token.Key{ID: 1, Secret: secret})
	f.Add([]byte("sitekey8"), int64(1_795_262_400_123), []byte("0123456789abcdef"), "www.example.com")
	f.Fuzz(func(t *testing.T, sitekey []byte, ms int64, id []byte, hostname string) {
		if len(sitekey) != 8 || len(id) != 16 || len(hostname) > token.MaxHostname || ms < -1<<52 || ms > 1<<52 {
			return
		}
		want := token.Token{Sitekey: token.Sitekey(sitekey), Issued: time.UnixMilli(ms).UTC(), ID: [16]byte(id), Hostname: hostname}
		if got, err := r.Read(r.Sign(&want)); err != nil || got != want {
			t.Errorf("read %+v, %v; want %+v", got, err, want)
		}
	})
}

func BenchmarkSign(b *testing.B) {
	r := signer(b, token.Key{ID: 1, Secret: secret})
	b.ReportAllocs()
	for b.Loop() {
		r.Sign(&sample)
	}
}

func BenchmarkRead(b *testing.B) {
	r := signer(b, token.Key{ID: 1, Secret: secret})
	s := r.Sign(&sample)
	b.ReportAllocs()

	for b.Loop() {
		if _, err := r.Read(s); err != nil {
			b.Fatal(err)
		}
	}
}
