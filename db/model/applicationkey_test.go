package model_test

import (
	"encoding/hex"
	"testing"

	"github.com/tallygate/tallygate/db/model"
)

// TestDerivedKeys pins the key of each use. A changed label or derivation would invalidate stored
// secrets, sessions, challenges and tokens of every installation.
func TestDerivedKeys(t *testing.T) {
	key := model.ApplicationKey("an application key of this test, 40 bytes")
	for use, want := range map[string]string{
		"captcha challenge mac 1":    "894e1913876f8b5d30fcd73e52e3ca4d637b76ebeba45e9c3d46bb063dfb923d",
		"captcha challenge work 1":   "9fed2ed8f5cf3b083f4aca12c9e43365737e1276f4bf5741a3e1fcb3389f4ae2",
		"captcha token 1":            "8170df9685fe061bd5f28d525d91d30fa33189509f76dfeeccb3eb5970f3d729",
		"stored keys":                "352ae5690068373be56ec8afda5c50a3e6dcfd35fc3e2b1687d410834b5c9421",
		"tallygate device cookie":    "b6807fe68c345da1e994f2581b58521b824497245c32b052166141342eaabff6",
		"tallygate session cookie":   "1b1f60a70fb51ed08cc8972afd11578b0750a606ecf6e1f2949f019a35c51bd6",
		"tallygate sign-in throttle": "077283062daccde4eb5cc5f66c18853cc08973b3b230cf6d021261f85966fae0",
		"user id":                    "8b46f38ca57a34ef28a6c9a569cbc7d62f91739a5d705185a62d0ff61c8f022c",
		"visitor id":                 "1eaf675b9eb2c54e2f9b1d9739ab313902d16244db741b316b8299f0fd9fedd1",
		"webhook secrets":            "a718c3d495b36c1e879765c38621afc13e6b3580e72653358c746ae89935aa0f",
	} {
		if got := hex.EncodeToString(key.Derive(use)); got != want {
			t.Errorf("%q: key %s, want %s", use, got, want)
		}
	}

	if got, want := key.Fingerprint(), "e0a70a66a1509533131bd25b1e7c2efd"; got != want {
		t.Errorf("fingerprint %s, want %s", got, want)
	}
	if got, want := hex.EncodeToString(model.NewUserIDKey(key)), hex.EncodeToString(key.Derive("user id")); got != want {
		t.Errorf("user id key %s, want %s", got, want)
	}
}
