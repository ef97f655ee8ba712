package auth

import (
	"crypto/rand"
	"encoding/base64"
	"encoding/binary"

	"github.com/tallygate/tallygate/db/accounts"
	"github.com/tallygate/tallygate/db/model"
)

// The uses of challenges. A challenge of one use is invalid for the others.
const (
	challengeSignIn   = "sign-in"          // second factor of a user whose password was right
	challengePasskey  = "passkey sign-in"  // of any user
	challengeRegister = "passkey creation" // by a signed-in user
)

const (
	challengeRandom = 32                      // bytes that a passkey signs
	challengeBytes  = 8 + 8 + challengeRandom // user, expiry, random bytes
)

// challenge is what a passkey signs. It is sent to the client as a signed token, and stored only
// once it was answered, so that asking for one writes nothing.
type challenge struct {
	userID  model.UserID // 0: any user
	expires model.Instant
	random  []byte
}

// newChallenge returns a challenge and its token.
func (p *Passkeys) newChallenge(use string, userID model.UserID) (challenge, string, error) {
	c := challenge{
		userID: userID, expires: model.At(p.now()).Add(model.ChallengeLifetime), random: make([]byte, challengeRandom),
	}

	// Read never fails, see its documentation.
	rand.Read(c.random)

	content := binary.BigEndian.AppendUint64(nil, uint64(c.userID))
	content = binary.BigEndian.AppendUint64(content, uint64(c.expires))
	token, err := p.challenges.Encode(use, append(content, c.random...))

	return c, token, err
}

// openChallenge reads the token of a challenge. It returns false for a wrong or expired one, and
// one of another use or user.
func (p *Passkeys) openChallenge(use, token string, userID model.UserID) (challenge, bool) {
	var content []byte
	if p.challenges.Decode(use, token, &content) != nil || len(content) != challengeBytes {
		return challenge{}, false
	}

	c := challenge{
		userID:  model.UserID(binary.BigEndian.Uint64(content)),
		expires: model.Instant(binary.BigEndian.Uint64(content[8:])), random: content[16:],
	}

	return c, c.userID == userID && model.At(p.now()) < c.expires
}

// text returns the challenge as a passkey's answer contains it.
func (c challenge) text() string { return base64.RawURLEncoding.EncodeToString(c.random) }

// answered returns the challenge as the database records it.
func (c challenge) answered() accounts.Challenge {
	return accounts.Challenge{Hash: model.HashToken(string(c.random)), ExpiresAt: c.expires}
}
