package captcha

import (
	"crypto/rand"
	"errors"
	"time"

	"github.com/tallygate/tallygate/dataplane/captcha/pow"
	"github.com/tallygate/tallygate/dataplane/captcha/token"
	"github.com/tallygate/tallygate/db/model"
)

// keyID is the id of the key in challenges and tokens. All application keys use the same id, since
// processes that restart one after the other could not agree on different ones.
const keyID = 1

// previousAccepted is how long after a rotation the previous key is still accepted. A challenge
// issued just before it can be solved for 10 minutes, its token redeemed for another 5, and
// processes follow within 5 seconds. After that no genuine token uses the key, and a client that
// knows it must not be able to sign tokens.
const previousAccepted = pow.Lifetime + token.Lifetime + token.MaxSkew + time.Minute

// keys sign with one application key, and accept signatures of it and of the previous one.
type keys struct {
	current  keyPair
	previous *keyPair           // nil without a previous key
	rotation *model.KeyRotation // nil without a previous key
}

// keyPair holds the keys that are derived from one application key.
type keyPair struct {
	work   *pow.Issuer
	tokens *token.Signer
}

func newKeys(current []byte, rotation *model.KeyRotation) (*keys, error) {
	pair, err := newKeyPair(current)
	if err != nil {
		return nil, err
	}

	k := &keys{current: *pair, rotation: rotation}

	if rotation != nil {
		k.previous, err = newKeyPair(rotation.Previous)
	}

	return k, err
}

func newKeyPair(secret []byte) (*keyPair, error) {
	work, workErr := pow.New(rand.Reader, pow.Key{ID: keyID, Secret: secret})
	tokens, tokenErr := token.New(token.Key{ID: keyID, Secret: secret})
	return &keyPair{work: work, tokens: tokens}, errors.Join(workErr, tokenErr)
}

// signing returns the pair that signs new challenges and tokens.
func (k *keys) signing() *keyPair {
	if k.rotation.SignsWithPrevious() {
		return k.previous
	}
	return &k.current
}

// acceptsPrevious reports whether signatures of the previous key are accepted.
func (k *keys) acceptsPrevious(now time.Time) bool {
	return k.previous != nil &&
		(k.rotation.SignsWithPrevious() || model.At(now).Sub(k.rotation.ReplacedAt()) < previousAccepted)
}

// issue returns a new challenge.
func (k *keys) issue(sitekey string, difficulty uint32, now time.Time) pow.Challenge {
	return k.signing().work.Issue(sitekey, difficulty, now)
}

// verify checks the solution of a challenge.
func (k *keys) verify(sitekey, challenge string, nonce uint64, now time.Time) (pow.Work, error) {
	work, err := k.current.work.Verify(sitekey, challenge, nonce, now)
	if errors.Is(err, pow.ErrForged) && k.acceptsPrevious(now) {
		return k.previous.work.Verify(sitekey, challenge, nonce, now)
	}
	return work, err
}

// sign returns the text of a token.
func (k *keys) sign(t *token.Token) string { return k.signing().tokens.Sign(t) }

// read returns the token of a text.
func (k *keys) read(text string, now time.Time) (token.Token, error) {
	t, err := k.current.tokens.Read(text)
	if err != nil && k.acceptsPrevious(now) {
		return k.previous.tokens.Read(text)
	}
	return t, err
}
