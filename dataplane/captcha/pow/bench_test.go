package pow

import (
	"testing"

	"github.com/tallygate/tallygate/tools/testkit"
)

func BenchmarkIssue(b *testing.B) {
	issuer := newIssuer(b, aKey)
	b.ReportAllocs()
	for b.Loop() {
		issuer.Issue("pk_0123456789abcdef0123456789abcdef", 524_288, now)
	}
}

func BenchmarkVerify(b *testing.B) {
	const sitekey = "pk_0123456789abcdef0123456789abcdef"
	issuer := newIssuer(b, aKey)
	c := issuer.Issue(sitekey, 1_024, now)
	nonce, err := Solve(c)
	testkit.NoError(b, err)

	b.ReportAllocs()

	for b.Loop() {
		if _, err := issuer.Verify(sitekey, c.Challenge, nonce, now); err != nil {
			b.Fatal(err)
		}
	}
}

// BenchmarkSolve reports hashes per second of the native solver at the default difficulty.
func BenchmarkSolve(b *testing.B) {
	issuer, hashes := newIssuer(b, aKey), 0.0
	for b.Loop() {
		c := issuer.Issue("pk", 524_288, now)
		secrets, _, err := find(c)
		testkit.NoError(b, err)

		for _, s := range secrets {
			hashes += float64(s) + 1
		}
	}

	b.ReportMetric(hashes/b.Elapsed().Seconds()/1e6, "MH/s")
}
