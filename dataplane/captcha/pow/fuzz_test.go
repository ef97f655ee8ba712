package pow

import (
	"errors"
	"slices"
	"testing"
	"time"

	"github.com/tallygate/tallygate/tools/testkit"
)

// FuzzDecode checks that an accepted text is encoded as the same text, and is within the bounds.
func FuzzDecode(f *testing.F) {
	for _, v := range readVectors(f).Verify {
		f.Add(v.Challenge)
	}

	f.Fuzz(func(t *testing.T, challenge string) {
		var buf [maxSize]byte
		all := decode(challenge, &buf)
		if all == nil {
			return
		}
		testkit.Equal(t, text.EncodeToString(all), challenge, "%q is written back as", challenge)
		if k := int(all[atK]); k < 1 || k > K || len(all) != bodySize+k*targetSize+macSize {
			t.Errorf("%q: k %d, %d bytes", challenge, k, len(all))
		}
	})
}

// FuzzVerify checks that any text, and a genuine challenge with some bytes changed, are refused.
func FuzzVerify(f *testing.F) {
	all := readVectors(f)
	issuers := all.issuers(f)

	accepted := map[string]uint64{}
	for _, v := range all.Verify {
		f.Add(v.Sitekey, v.Challenge, v.Nonce, v.Now, uint8(0), uint8(0))
		f.Add(v.Sitekey, v.Challenge, v.Nonce, v.Now, uint8(47), uint8(1))

		if v.Error == "" {
			accepted[v.Sitekey+" "+v.Challenge] = v.Nonce
		}
	}

	refusals := []error{ErrMalformed, ErrForged, ErrSitekey, ErrExpired, ErrNonce}
	f.Fuzz(func(t *testing.T, sitekey, challenge string, nonce uint64, at int64, position, flip uint8) {
		if raw, err := text.DecodeString(challenge); err == nil && len(raw) > 0 {
			raw[int(position)%len(raw)] ^= flip
			challenge = text.EncodeToString(raw)
		}

		work, err := issuers.verify(sitekey, challenge, nonce, time.UnixMilli(at))
		if err == nil {
			want, issued := accepted[sitekey+" "+challenge]
			if !issued || nonce != want || work.ID == [16]byte{} || work.Difficulty == 0 {
				t.Errorf("accepted %q %q %d: %+v", sitekey, challenge, nonce, work)
			}

			return
		}

		if work != (Work{}) || !slices.ContainsFunc(refusals, func(e error) bool { return errors.Is(err, e) }) {
			t.Errorf("%v with %+v", err, work)
		}
	})
}
