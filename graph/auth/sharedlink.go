package auth

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/binary"
	"fmt"
	"net/http"
	"strings"
	"time"

	"github.com/tallygate/tallygate/db/accounts"
	"github.com/tallygate/tallygate/db/model"
	"github.com/tallygate/tallygate/db/sites"
)

// Shared links: a reader exchanges the secret of a link, and its password if it has one, for a
// viewer token. The viewer token is signed and not stored. Each request with it reads the link
// again, so that a revoked link ends at once.

// SharedLinks opens shared links and recognises their readers.
type SharedLinks struct {
	links     *sites.Objects
	passwords *passwords
	throttle  *throttle
	viewers   *cookieSigner // of viewer tokens
	secure    bool          // cookies need https
	now       func() time.Time
}

// viewerTokenPrefix is the prefix of viewer tokens.
const viewerTokenPrefix = "tgv_"

// The throttle of wrong passwords of one link, from all networks together. Its delay is short,
// because one reader could otherwise lock out all others.
const (
	linkFailures = 100
	linkDelay    = 30 * time.Second
)

var (
	errSharedLink = model.InvalidField("token", "invalid_link", "The shared link is wrong, revoked or expired.")
	errLinkLocked = model.InvalidField("password", "password_required", "This shared link has a password.")
	errViewer     = &model.Error{Kind: model.Unauthenticated, Code: "unauthenticated",
		Message: "The viewer token has expired, or its shared link was revoked. Open the link again."}
)

// HashPassword checks the password of a new shared link and returns its hash.
func (s *SharedLinks) HashPassword(ctx context.Context, password string) (string, error) {
	if err := model.CheckLinkPassword(password); err != nil {
		return "", err
	}

	release, err := s.passwords.hasher.reserve(false)
	if err != nil {
		return "", err
	}
	defer release()

	return s.passwords.hasher.hash(ctx, password)
}

// Open returns a viewer token for a shared link and when it expires: after
// model.SharedViewLifetime, or with the link. It opens only the link with an id, unless that is
// nil. It fails with the model.Errors invalid_link, password_required, wrong_credentials and, after
// too many wrong passwords, rate_limited.
func (s *SharedLinks) Open(ctx context.Context, secret, password string, id *model.SharedLinkID) (string, model.Instant, error) {
	r, err := passwordRequest(ctx)
	if err != nil {
		return "", 0, err
	}

	// A mistyped secret costs no lookup.
	if !model.IsSecret(model.SharedLinkPrefix, secret) {
		return "", 0, errSharedLink
	}

	now := model.At(s.now())
	link, err := s.links.SharedLinkByToken(ctx, model.HashToken(secret), now)
	if model.KindOf(err) == model.NotFound || err == nil && id != nil && *id != link.ID {
		err = errSharedLink
	}
	if err != nil {
		return "", 0, err
	}

	expires := now.Add(model.SharedViewLifetime)
	if link.ExpiresAt != 0 {
		expires = min(expires, link.ExpiresAt)
	}

	if until := s.readerUntil(r.http, link); password == "" && until > now {
		expires = min(expires, until)
	} else if err := s.checkPassword(ctx, r, link, password); err != nil {
		return "", 0, err
	} else if err := s.rememberReader(r, link, expires); err != nil {
		return "", 0, err
	}

	text, err := s.viewers.Encode(viewerTokenPrefix, viewerToken(link.ID, expires))
	return viewerTokenPrefix + text, expires, err
}

// checkPassword compares the password of a link that has one, and counts wrong ones.
func (s *SharedLinks) checkPassword(ctx context.Context, r *request, link *model.SharedLink, password string) error {
	switch {
	case link.PasswordHash == "":
		return nil
	case password == "":
		return errLinkLocked
	case !model.IsPassword(password):
		return wrongPassword("password")
	}

	limits := append(s.throttle.networkLimits(r.http, "shared link network", networkFailures), accounts.SignInLimit{
		Key:  s.throttle.key.hash("shared link", binary.BigEndian.AppendUint64(nil, uint64(link.ID))),
		Free: linkFailures, Cap: linkDelay,
	})
	release, err := s.passwords.admit(ctx, false, limits)
	if err != nil {
		return err
	}
	defer release()

	matches, _, err := s.passwords.hasher.check(ctx, password, link.PasswordHash)
	switch {
	case err != nil:
		return s.throttle.uncount(ctx, limits, err)
	case !matches:
		return wrongPassword("password")
	}

	return s.throttle.uncount(ctx, limits, nil)
}

// A reader who has given the password of a link is recognised by a signed cookie until the viewer
// token would expire, so that a reload does not ask again. Scripts cannot read the cookie. It holds
// for one link with its present password: a revoked link is not found before the cookie is read.

// readerCookie returns the name of a link's cookie.
func (s *SharedLinks) readerCookie(link *model.SharedLink) string {
	name := fmt.Sprintf("tallygate-link-%x", link.TokenHash[:8])
	if s.secure {
		name = "__Secure-" + name
	}
	return name
}

// readerUntil returns when the recognition of a link's reader ends, or 0.
func (s *SharedLinks) readerUntil(r *http.Request, link *model.SharedLink) model.Instant {
	name := s.readerCookie(link)
	cookie, err := r.Cookie(name)
	if err != nil {
		return 0
	}

	var content []byte
	if s.viewers.Decode(name, cookie.Value, &content) != nil || len(content) != 8+sha256.Size {
		return 0
	}
	if password := sha256.Sum256([]byte(link.PasswordHash)); !bytes.Equal(content[8:], password[:]) {
		return 0
	}
	return model.Instant(binary.BigEndian.Uint64(content))
}

// rememberReader sets the cookie of a link that has a password. It is sent to the API only.
func (s *SharedLinks) rememberReader(r *request, link *model.SharedLink, until model.Instant) error {
	if link.PasswordHash == "" {
		return nil
	}

	name := s.readerCookie(link)
	password := sha256.Sum256([]byte(link.PasswordHash))
	value, err := s.viewers.Encode(name, append(binary.BigEndian.AppendUint64(nil, uint64(until)), password[:]...))
	if err != nil {
		return err
	}

	http.SetCookie(r.w, &http.Cookie{
		Name: name, Value: value, Path: "/graphql", MaxAge: int(until.Time().Sub(s.now()) / time.Second),
		HttpOnly: true, Secure: s.secure, SameSite: http.SameSiteStrictMode,
	})
	return nil
}

// viewerToken is the signed content of a viewer token.
func viewerToken(linkID model.SharedLinkID, expires model.Instant) []byte {
	return binary.BigEndian.AppendUint64(binary.BigEndian.AppendUint64(nil, uint64(linkID)), uint64(expires))
}

// view returns the caller with a viewer token.
func (s *SharedLinks) view(ctx context.Context, secret string) (Caller, error) {
	var content []byte
	err := s.viewers.Decode(viewerTokenPrefix, strings.TrimPrefix(secret, viewerTokenPrefix), &content)
	if err != nil || len(content) != 16 {
		return Caller{}, errViewer
	}

	now := model.At(s.now())
	linkID, expires := model.SharedLinkID(binary.BigEndian.Uint64(content)), model.Instant(binary.BigEndian.Uint64(content[8:]))
	if now >= expires {
		return Caller{}, errViewer
	}

	view, err := s.links.SharedView(ctx, linkID, now)
	if model.KindOf(err) == model.NotFound {
		err = errViewer
	}

	return Caller{Shared: view}, err
}
