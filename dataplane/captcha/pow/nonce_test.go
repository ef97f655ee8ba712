package pow

import (
	"encoding/json"
	"fmt"
	"math/big"
	"math/rand/v2"
	"strconv"
	"strings"
	"testing"
)

func TestParseNonce(t *testing.T) {
	const rejected = -1
	for number, want := range map[string]int64{
		"0": 0, "-0": 0, "-0.0e5": 0, "0e999999999999999999999": 0, "0.000": 0,
		"123": 123, "123.0": 123, "12300e-2": 123, "1.23E+2": 123, "0.00123e5": 123, "1.93e15": 1_930_000_000_000_000,
		"4503599627370495": MaxNonce, "4503599627370495.000": MaxNonce, "4.503599627370495e15": MaxNonce,
		"4503599627370496": rejected, "4503599627370495.5": rejected, "9007199254740993": rejected, "1e16": rejected,
		"-1": rejected, "-1e-400": rejected, "0.5": rejected, "1.5": rejected, "1e-1": rejected, "1e400": rejected,
		"1e999999999999999999999": rejected, "1e-999999999999999999999": rejected, "1e0000000000000000000000002": 100,
		"1" + strings.Repeat("0", 4_000) + "e-4000": 1, "0." + strings.Repeat("0", 4_000) + "1e4001": 1, strings.Repeat("9", 30): rejected,
	} {
		got, ok := ParseNonce([]byte(number))
		if ok != (want != rejected) || ok && got != uint64(want) {
			t.Errorf("%.40s: %d, %v; want %d", number, got, ok, want)
		}
	}
}

// sameAsExact compares ParseNonce with exact rational arithmetic.
func sameAsExact(t *testing.T, number string) {
	t.Helper()
	value, ok := new(big.Rat).SetString(number)
	if !ok {
		t.Fatalf("%q is not a number", number)
	}

	want := value.IsInt() && value.Sign() >= 0 && value.Num().Cmp(big.NewInt(MaxNonce)) <= 0
	nonce, got := ParseNonce([]byte(number))
	if got != want || want && nonce != value.Num().Uint64() {
		t.Errorf("%s: %d, %v; want %v, %v", number, nonce, got, value, want)
	}
}

// TestNonceNotations checks that every nonce is read from each notation of its value, and that its
// neighbours are refused.
func TestNonceNotations(t *testing.T) {
	random := rand.New(rand.NewPCG(1, 2))
	for range 20_000 {
		n := random.Uint64N(2*MaxNonce) >> random.IntN(50)
		for _, number := range []string{
			strconv.FormatUint(n, 10), strconv.FormatUint(n, 10) + ".0", strconv.FormatFloat(float64(n), 'e', -1, 64),
			strconv.FormatFloat(float64(n), 'g', -1, 64), fmt.Sprintf("%de-3", n), fmt.Sprintf("%d000E-3", n), fmt.Sprintf("%d.5", n),
			fmt.Sprintf("%de%d", n, random.IntN(12)-6), fmt.Sprintf("-%d", n), fmt.Sprintf("0.%de%d", n, random.IntN(20)),
		} {
			sameAsExact(t, number)
		}
	}
}

// FuzzNonce compares ParseNonce with exact arithmetic for any JSON number.
func FuzzNonce(f *testing.F) {
	for _, number := range []string{"0", "-0", "123.0", "1.93e15", "4503599627370495", "4503599627370496", "1e-1", "10e-1", "-1e3", "0.1E+1"} {
		f.Add(number)
	}

	f.Fuzz(func(t *testing.T, number string) {
		if !json.Valid([]byte(number)) || strings.Trim(number, "0123456789.eE+-") != "" {
			return
		}

		// An exact value of a large exponent takes much memory.
		if _, exponent, _ := strings.Cut(strings.ToLower(number), "e"); len(strings.TrimLeft(exponent, "+-0")) > 3 {
			ParseNonce([]byte(number))
			return
		}

		sameAsExact(t, number)
	})
}
