package model_test

import (
	"encoding/json"
	"math"
	"math/big"
	"math/rand/v2"
	"regexp"
	"strconv"
	"strings"
	"testing"

	"github.com/tallygate/tallygate/db/model"
	"github.com/tallygate/tallygate/tools/testkit"
)

func TestParseMoney(t *testing.T) {
	const max, min = model.Money(math.MaxInt64), model.Money(math.MinInt64)
	for _, test := range []struct {
		rule, text string
		want       model.Money
	}{
		{"zero", "0", 0},
		{"minus zero", "-0", 0},
		{"zero with an exponent", "0e999", 0},
		{"whole", "12", 12_000_000},
		{"decimals", "19.99", 19_990_000},
		{"negative", "-12.5", -12_500_000},
		{"one millionth", "0.000001", 1},
		{"what a float cannot say", "900719925474.099301", 900_719_925_474_099_301},
		{"exponent", "1.5e3", 1_500_000_000},
		{"exponent with a plus", "1E+2", 100_000_000},
		{"negative exponent", "1234567e-6", 1_234_567},
		{"exponent beyond all digits", "1e-7", 0},
		{"exponent far beyond all digits", "9e-999", 0},
		{"long zeros with an exponent", "0." + strings.Repeat("0", 20) + "1e21", 1_000_000},
		{"down below a half", "0.0000014999", 1},
		{"up above a half", "0.00000150001", 2},
		{"half to even, down", "0.0000005", 0},
		{"half to even, up", "0.0000015", 2},
		{"half to even, down again", "0.0000025", 2},
		{"half to even with zeros after", "0.00000250000", 2},
		{"half to even, negative", "-0.0000015", -2},
		{"rounding carries", "9.9999999", 10_000_000},
		{"rounds below one millionth", "6e-7", 1},
		{"largest", "9223372036854.775807", max},
		{"largest after rounding", "9223372036854.7758074", max},
		{"smallest", "-9223372036854.775808", min},
	} {
		if got, ok := model.ParseMoney(test.text); !ok || got != test.want {
			t.Errorf("%s: ParseMoney(%s) = %d, %v; want %d", test.rule, test.text, got, ok, test.want)
		}
	}

	for _, bad := range []string{
		"", " ", "-", "--1", "+1", "1 ", " 1", ".5", "5.", "1.e3", "01", "-01", "00", "1.2.3", "1e", "1e+", "e5", "1e5.0", "1ee5", "1e5e5",
		"0x10", "1_000", "1,5", "NaN", "Infinity", "null", `"1"`, "١", "1e1000", "0e-1000", "1e99999999999999999999",
		"9223372036854.775808", "9223372036854.7758075", "-9223372036854.775809", "1e13", "1e999",
	} {
		if got, ok := model.ParseMoney(bad); ok {
			t.Errorf("ParseMoney(%q) = %d, want a refusal", bad, got)
		}
	}
}

func TestMoneyString(t *testing.T) {
	for _, test := range []struct {
		m    model.Money
		want string
	}{
		{0, "0"}, {1, "0.000001"}, {-1, "-0.000001"}, {-12_500_000, "-12.5"}, {100_000_000, "100"}, {19_990_000, "19.99"},
		{math.MaxInt64, "9223372036854.775807"}, {math.MinInt64, "-9223372036854.775808"},
	} {
		testkit.Equal(t, test.m.String(), test.want, "%d is written", int64(test.m))
		if b, err := json.Marshal(test.m); err != nil || string(b) != test.want {
			t.Errorf("%d as JSON: %s, %v; want %s", int64(test.m), b, err, test.want)
		}
	}
}

// TestMoneyRoundTrip checks that every amount is parsed back from its own text.
func TestMoneyRoundTrip(t *testing.T) {
	random := rand.New(rand.NewPCG(1, 0))
	for range 100_000 {
		m := model.Money(random.Uint64() >> random.IntN(64))

		if random.IntN(2) == 0 {
			m = -m
		}
		if back, ok := model.ParseMoney(m.String()); !ok || back != m {
			t.Fatalf("ParseMoney(%s) = %d, %v; want %d", m, back, ok, int64(m))
		}
	}
}

// TestParseMoneyAgainstBig compares ParseMoney with exact arithmetic, for random numbers of every
// form.
func TestParseMoneyAgainstBig(t *testing.T) {
	random := rand.New(rand.NewPCG(2, 0))
	for range 100_000 {
		checkAgainstBig(t, randomNumber(random))
	}
}

func FuzzParseMoney(f *testing.F) {
	for _, s := range []string{"0", "-12.5", "1e-6", "0.0000005", "9223372036854.775807", "1e999", "x"} {
		f.Add(s)
	}
	f.Fuzz(checkAgainstBig)
}

var jsonNumber = regexp.MustCompile(`^(-?)(?:0|[1-9][0-9]*)(?:\.[0-9]+)?(?:[eE]([-+]?[0-9]+))?$`)

func checkAgainstBig(t *testing.T, text string) {
	t.Helper()
	got, ok := model.ParseMoney(text)
	want, wantOK := bigMoney(text)
	if got != want && ok || ok != wantOK {
		t.Fatalf("ParseMoney(%q) = %d, %v; want %d, %v", text, int64(got), ok, int64(want), wantOK)
	}
}

// bigMoney implements the rule of ParseMoney with math/big.
func bigMoney(text string) (model.Money, bool) {
	parts := jsonNumber.FindStringSubmatch(text)
	if parts == nil {
		return 0, false
	}

	if parts[2] != "" {
		if e, err := strconv.Atoi(parts[2]); err != nil || e < -999 || e > 999 {
			return 0, false
		}
	}

	exact, ok := new(big.Rat).SetString(text)
	if !ok {
		return 0, false
	}

	exact.Mul(exact, big.NewRat(1_000_000, 1))

	// DivMod rounds down, so that rest is not negative.
	whole, rest := new(big.Int).DivMod(exact.Num(), exact.Denom(), new(big.Int))
	switch half := new(big.Int).Lsh(rest, 1).Cmp(exact.Denom()); {
	case half > 0, half == 0 && whole.Bit(0) == 1:
		whole.Add(whole, big.NewInt(1))
	}

	return model.Money(whole.Int64()), whole.IsInt64()
}

func randomNumber(random *rand.Rand) string {
	digits := func(most int) string {
		var b strings.Builder
		for range random.IntN(most) + 1 {
			b.WriteByte("000123455559999"[random.IntN(15)])
		}
		return b.String()
	}

	s := ""

	if random.IntN(3) == 0 {
		s = "-"
	}

	whole := strings.TrimLeft(digits(16), "0")
	if whole == "" {
		whole = "0"
	}

	s += whole

	if random.IntN(3) > 0 {
		s += "." + digits(14)
	}
	if random.IntN(3) == 0 {
		s += "e" + strconv.Itoa(random.IntN(41)-20)
	}

	return s
}
