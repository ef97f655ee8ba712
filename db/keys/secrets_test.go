package keys_test

import (
	"encoding/hex"
	"testing"

	"github.com/tallygate/tallygate/db/keys"
	"github.com/tallygate/tallygate/tools/dbtest"
	"github.com/tallygate/tallygate/tools/testkit"
)

// TestStoredSecrets opens values of each kind that an earlier version stored, and only as the
// secrets of the rows that they belong to.
func TestStoredSecrets(t *testing.T) {
	t.Parallel()

	s := keys.New(keyHolder(t, dbtest.SQLiteURL(t), "a"))
	stored := []struct {
		secret, ofOtherRow keys.Secret
		sealed, want       string
	}{
		{
			keys.WebhookSecret(7), keys.WebhookSecret(8),
			"a7a30ea5065e8491eece6b42d829dbd41cd541fcf98b0edb4a5ef5286470d8b543b8710101fe5dc47991f60d", "a webhook secret",
		},
		{
			keys.ImportToken(7), keys.ImportToken(8),
			"462d50f32b4062341236f0a5efa6cb23c4342d2f83ff263b41b81e0f554bc950cb6090d2f7fa8025791444", "an import token",
		},
		{
			keys.LinkToken(7), keys.LinkToken(8),
			"a23d0ada6c22fda8e88bf236a71fc0d7d88014de0c9346e8fb81352ad1affb51e0f5eb24dab338dc", "a link token",
		},
		{
			keys.ChannelAddress(7), keys.ChannelAddress(8),
			"62cd215d4f0806ecb56e02d2322d721c199d576429ba60db0389a6fccd9c40a1505ac262f7b983f38757ddb1e5", "a channel address",
		},
		{
			keys.ChannelSecret(7), keys.ChannelSecret(8),
			"b8880a12b042230799231e5cff6335fb00cdee9fbe20966d5b35cf528a792e5b4ba8d08add5f2b177670a7d7", "a channel secret",
		},
		{
			keys.CertificateFile("a/b.key"), keys.CertificateFile("a/c.key"),
			"49305838f49f9995e45c66df54bdd4352c3b5367e245b1bf3139a18be36627261a5ce3f5f5d749283a8c6ce39e39", "a certificate file",
		},
		{
			keys.TOTPSecret(7), keys.TOTPSecret(8),
			"53978befc9a1f939b7a19f695da2175de4df83247e07c7732346bb6599ac5ca6042cebb5974d51e384", "a TOTP secret",
		},
		{
			keys.ClientSecret(7), keys.ClientSecret(8),
			"30cc8b8f7d65a3ef06331037669492fc462b655249080c0e00e65a83c683e525dec9e4ba27fff868f88434", "a client secret",
		},
	}

	for i, test := range stored {
		sealed, err := hex.DecodeString(test.sealed)
		testkit.NoError(t, err)
		got, err := s.Open(test.secret, sealed)
		testkit.NoError(t, err)
		testkit.Equal(t, got, test.want, "opened")

		otherKind := stored[(i+1)%len(stored)].secret
		for _, other := range []keys.Secret{test.ofOtherRow, otherKind} {
			if got, err := s.Open(other, sealed); err == nil {
				t.Errorf("%s is opened as another secret: %q", test.want, got)
			}
		}
	}
}
