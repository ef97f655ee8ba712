package pow

import (
	"crypto/rand"
	"encoding/hex"
	"encoding/json"
	"errors"
	mathrand "math/rand/v2"
	"os"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/tallygate/tallygate/tools/testkit"
)

var now = time.UnixMilli(1795651200000).UTC()

// vectors are testdata/vectors.json, which also test the engines of the browser.
type vectors struct {
	Keys []struct {
		ID     uint8
		Secret string
	}
	Solve []struct {
		Name string
		Challenge
		Secrets []uint32
		Nonce   uint64
	}
	Unsolvable []struct {
		Name string
		Challenge
	}
	Verify []struct {
		Name, Error        string
		Sitekey, Challenge string
		Nonce              uint64
		Now                int64
	}
}

func readVectors(t testing.TB) (v vectors) {
	t.Helper()
	content, err := os.ReadFile("testdata/vectors.json")
	if err == nil {
		err = json.Unmarshal(content, &v)
	}
	testkit.NoError(t, err)

	return v
}

// issuers returns the issuers of the vectors' keys.
func (v vectors) issuers(t testing.TB) (all issuers) {
	t.Helper()
	for _, k := range v.Keys {
		secret, err := hex.DecodeString(k.Secret)
		testkit.NoError(t, err)
		all = append(all, newIssuer(t, Key{ID: k.ID, Secret: secret}))
	}
	return all
}

type issuers []*Issuer

// verify verifies a solution with the first key that the challenge is not forged for.
func (all issuers) verify(sitekey, challenge string, nonce uint64, now time.Time) (work Work, err error) {
	for _, issuer := range all {
		if work, err = issuer.Verify(sitekey, challenge, nonce, now); !errors.Is(err, ErrForged) {
			break
		}
	}
	return work, err
}

func newIssuer(t testing.TB, key Key) *Issuer {
	t.Helper()
	issuer, err := New(rand.Reader, key)
	testkit.NoError(t, err)
	return issuer
}

var aKey = Key{ID: 3, Secret: []byte("0123456789abcdef")}

// seeded is a reproducible source of random bytes for one goroutine.
func seeded(n byte) *mathrand.ChaCha8 { return mathrand.NewChaCha8([32]byte{n}) }

func TestVectorsAreSolved(t *testing.T) {
	all := readVectors(t)
	for _, v := range all.Solve {
		secrets, _, err := find(v.Challenge)
		if err != nil || !slices.Equal(secrets, v.Secrets) {
			t.Errorf("%s: found %v, %v, want %v", v.Name, secrets, err, v.Secrets)
		}
		if nonce, err := Solve(v.Challenge); err != nil || nonce != v.Nonce || nonce > MaxNonce {
			t.Errorf("%s: nonce %d, %v, want %d", v.Name, nonce, err, v.Nonce)
		}
	}

	for _, v := range all.Unsolvable {
		if nonce, err := Solve(v.Challenge); !errors.Is(err, ErrMalformed) {
			t.Errorf("%s: nonce %d, %v, want %v", v.Name, nonce, err, ErrMalformed)
		}
	}

	if len(all.Solve) < 10 || len(all.Unsolvable) < 10 {
		t.Errorf("only %d and %d vectors", len(all.Solve), len(all.Unsolvable))
	}
}

func TestVectorsAreVerified(t *testing.T) {
	refusals := map[string]error{
		"": nil, "malformed": ErrMalformed, "forged": ErrForged, "sitekey": ErrSitekey, "expired": ErrExpired, "nonce": ErrNonce,
	}

	all := readVectors(t)
	issuers, seen := all.issuers(t), map[string]int{}
	for _, v := range all.Verify {
		want, known := refusals[v.Error]
		if !known {
			t.Fatalf("%s: no error is called %q", v.Name, v.Error)
		}

		seen[v.Error]++
		work, err := issuers.verify(v.Sitekey, v.Challenge, v.Nonce, time.UnixMilli(v.Now))
		if !errors.Is(err, want) {
			t.Errorf("%s: %v, want %v", v.Name, err, want)
		}
		if (work == Work{}) != (err != nil) {
			t.Errorf("%s: %v with %+v", v.Name, err, work)
		}
	}

	for name := range refusals {
		if seen[name] == 0 {
			t.Errorf("no vector for error %q", name)
		}
	}
}

func TestWorkIsWhatWasIssued(t *testing.T) {
	random := seeded(1)
	issuer, err := New(random, aKey)
	testkit.NoError(t, err)

	var id [16]byte
	seeded(1).Read(id[:])

	c := issuer.Issue("pk_site", 4_096, now.Add(999*time.Microsecond))
	if len(c.Challenge) != 214 || len(c.Salt) != 22 || c.Difficulty != 4_096 {
		t.Errorf("issued %+v", c)
	}
	if c.Salt != text.EncodeToString(id[:]) {
		t.Errorf("salt %s is not the random id %x", c.Salt, id)
	}

	nonce, err := Solve(c)
	testkit.NoError(t, err)

	got, err := issuer.Verify("pk_site", c.Challenge, nonce, now.Add(time.Second))
	want := Work{ID: id, Difficulty: 4_096, Issued: now, Expires: now.Add(Lifetime)}
	if err != nil || got != want {
		t.Errorf("verified %+v, %v, want %+v", got, err, want)
	}
}

// TestIssuedChallengesCanBeSolved solves many challenges, each with another sitekey and difficulty.
func TestIssuedChallengesCanBeSolved(t *testing.T) {
	numbers := mathrand.New(seeded(2))
	issuer, err := New(seeded(3), aKey)
	testkit.NoError(t, err)

	for i := range 300 {
		sitekey := strings.Repeat("k", numbers.IntN(64))
		difficulty, k := 16+numbers.Uint32N(1<<(4+i%10)), K

		if i%3 == 0 {
			k = 1 + numbers.IntN(K)
		}

		c := issuer.issue(sitekey, difficulty, k, now)
		nonce, err := Solve(c)
		if err != nil {
			t.Fatalf("difficulty %d, k %d: %v", difficulty, k, err)
		}
		if w, err := issuer.Verify(sitekey, c.Challenge, nonce, now); err != nil || w.Difficulty != difficulty {
			t.Fatalf("difficulty %d, k %d: verified %+v, %v", difficulty, k, w, err)
		}
		if _, err := issuer.Verify(sitekey, c.Challenge, nonce^1<<numbers.IntN(64), now); !errors.Is(err, ErrNonce) {
			t.Fatalf("another nonce: %v", err)
		}
	}
}

func TestDifficultyIsKeptInBounds(t *testing.T) {
	issuer := newIssuer(t, aKey)
	for given, want := range map[uint32]uint32{
		0: MinDifficulty, 15: MinDifficulty, 16: 16, 17: 17, MaxDifficulty: MaxDifficulty, 1<<32 - 1: MaxDifficulty,
	} {
		if c := issuer.Issue("pk", given, now); c.Difficulty != want {
			t.Errorf("difficulty %d became %d, want %d", given, c.Difficulty, want)
		}
	}
}

func TestOtherKeysAreForged(t *testing.T) {
	older, newer := Key{ID: 1, Secret: []byte("older secret 0123")}, Key{ID: 2, Secret: []byte("newer secret 0123")}
	c := newIssuer(t, older).Issue("pk", 64, now)
	nonce, err := Solve(c)
	testkit.NoError(t, err)

	for name, test := range map[string]struct {
		issuer *Issuer
		want   error
	}{
		"same key":                     {newIssuer(t, older), nil},
		"another key":                  {newIssuer(t, newer), ErrForged},
		"other secret under its id":    {newIssuer(t, Key{ID: 1, Secret: newer.Secret}), ErrForged},
		"same secret under another id": {newIssuer(t, Key{ID: 2, Secret: older.Secret}), ErrForged},
	} {
		if _, err := test.issuer.Verify("pk", c.Challenge, nonce, now); !errors.Is(err, test.want) {
			t.Errorf("%s: %v, want %v", name, err, test.want)
		}
	}

	if c := newIssuer(t, newer).Issue("pk", 64, now); !strings.HasPrefix(c.Challenge, "AQI") {
		t.Errorf("%s is not issued with key 2", c.Challenge)
	}
}

func TestShortSecretsAreRefused(t *testing.T) {
	const want = "the secret of key 9 has 15 bytes, fewer than 16"
	if _, err := New(rand.Reader, Key{ID: 9, Secret: make([]byte, 15)}); err == nil || !strings.Contains(err.Error(), want) {
		t.Errorf("New = %v, want an error with %q", err, want)
	}
}

func TestIssuerInManyGoroutines(t *testing.T) {
	issuer := newIssuer(t, aKey)
	var ids sync.Map

	var wg sync.WaitGroup
	for range 8 {
		wg.Go(func() {
			for range 50 {
				c := issuer.Issue("pk", 64, now)
				nonce, err := Solve(c)
				if err != nil {
					t.Error(err)
					return
				}

				w, err := issuer.Verify("pk", c.Challenge, nonce, now)
				if _, twice := ids.LoadOrStore(w.ID, true); err != nil || twice {
					t.Errorf("%v, the id %x occurred before: %v", err, w.ID, twice)
					return
				}
			}
		})
	}

	wg.Wait()
}

// TestEverySecretIsBelowItsBound checks the bounds and the mean of each of the sixteen secrets.
func TestEverySecretIsBelowItsBound(t *testing.T) {
	const rounds, difficulty, bound = 10_000, 8_192, 1_024
	var sums [K]float64
	eachWork(rounds, difficulty, func(secrets []uint32) {
		for i, s := range secrets {
			if s >= bound {
				t.Fatalf("secret %d of %v is not below %d", i, secrets, bound)
			}
			sums[i] += float64(s)
		}
	})

	for i, sum := range sums {
		// The mean of 10,000 uniform draws is within 4.5 standard errors: 1024 * 0.2887 / 100 * 4.5
		// = 13.3.
		if mean := sum / rounds; mean < 511.5-13.3 || mean > 511.5+13.3 {
			t.Errorf("the mean of secret %d is %.1f, want about 511.5", i, mean)
		}
	}
}

// TestWorkVariesLittle checks that the number of hashes is nearly the same for all challenges.
func TestWorkVariesLittle(t *testing.T) {
	const rounds, difficulty = 20_000, 524_288
	var totals []float64
	sum := 0.0
	eachWork(rounds, difficulty, func(secrets []uint32) {
		total := 0.0
		for _, s := range secrets {
			total += float64(s) + 1
		}
		totals = append(totals, total/difficulty)
		sum += total / difficulty
	})

	slices.Sort(totals)
	at := func(q float64) float64 { return totals[int(q*rounds)] }
	p50, p95, p99 := at(0.5), at(0.95), at(0.99)
	t.Logf("total work of %d challenges, relative to the difficulty: mean %.4f, p50 %.3f, p95 %.3f, p99 %.3f, most %.3f; p99/p50 %.3f",
		rounds, sum/rounds, p50, p95, p99, totals[rounds-1], p99/p50)

	if mean := sum / rounds; mean < 0.99 || mean > 1.01 {
		t.Errorf("the mean is %.3f of the difficulty", mean)
	}
	if p99/p50 > 1.35 || p95/p50 > 1.26 || totals[rounds-1] > 2 {
		t.Errorf("p95 %.3f and p99 %.3f of the median, most %.3f", p95/p50, p99/p50, totals[rounds-1])
	}
}

// eachWork derives the secrets of many challenges, the same ones in every run.
func eachWork(rounds int, difficulty uint32, use func(secrets []uint32)) {
	issuer, err := New(seeded(4), aKey)
	if err != nil {
		panic(err)
	}

	b := issuer.scratches.Get().(*scratch)
	var raw [maxSize]byte

	var buf [K]uint32
	for range rounds {
		use(b.secrets(decode(issuer.Issue("pk", difficulty, now).Challenge, &raw), &buf))
	}
}
