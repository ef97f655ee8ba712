package auth

import (
	"testing"
	"time"

	"github.com/pquerna/otp/totp"

	"github.com/tallygate/tallygate/db/model"
	"github.com/tallygate/tallygate/tools/testkit"
)

// rfcSecret is the secret of the examples in RFC 4226 and RFC 6238.
var rfcSecret = []byte("12345678901234567890")

// TestTOTPCodes compares codes with appendix D of RFC 4226, and their last six digits with appendix
// B of RFC 6238.
func TestTOTPCodes(t *testing.T) {
	t.Parallel()

	for step, want := range []string{"755224", "287082", "359152", "969429", "338314", "254676", "287922", "162583", "399871", "520489"} {
		testkit.Equal(t, totpCode(rfcSecret, int64(step)), want, "step %d", step)
	}

	for seconds, code := range map[int64]string{1111111109: "081804", 1111111111: "050471", 1234567890: "005924",
		2000000000: "279037", 20000000000: "353130"} {
		right := seconds / 30
		for late, want := range map[int64]bool{-60: false, -30: true, 0: true, 30: true, 60: false} {
			step, ok := totpStep(rfcSecret, code, time.Unix(seconds+late, 0))
			if ok != want || ok && step != right {
				t.Errorf("%s at %d: step %d, %v, want %d, %v", code, seconds+late, step, ok, right, want)
			}
		}
	}

	for _, wrong := range []string{"", "2", "28708", "287083", "0287082", "+87082"} {
		if _, ok := totpStep(rfcSecret, wrong, time.Unix(59, 0)); ok {
			t.Errorf("%q is accepted", wrong)
		}
	}
}

// TestTOTPURI compares URIs with URIs of a library.
func TestTOTPURI(t *testing.T) {
	t.Parallel()

	for _, email := range []string{"owner@example.com", "a+b@example.com", "a/b?c#d%e@bücher.example", "o'neil&sons=x@example.com"} {
		setup, err := (&SecondFactors{baseURL: "https://[2001:db8::1]:8443/path"}).totpSetup(&model.User{Email: email}, rfcSecret)
		testkit.NoError(t, err)

		key, err := totp.Generate(totp.GenerateOpts{Issuer: "Tallygate 2001.db8..1", AccountName: email, Secret: rfcSecret})
		testkit.NoError(t, err)
		if setup.URI != key.URL() || setup.Secret != key.Secret() {
			t.Errorf("%s: %s with %s, want %s with %s", email, setup.URI, setup.Secret, key.URL(), key.Secret())
		}
	}
}
