package auth

import (
	"crypto/rand"
	"net/http"
	"time"

	"github.com/gorilla/sessions"

	"github.com/tallygate/tallygate/db/accounts"
	"github.com/tallygate/tallygate/db/model"
)

const (
	sessionName      = "tallygate_session"
	sessionNameHTTPS = "__Host-tallygate" // browsers accept it only with Secure, Path=/ and without Domain
	userValue        = "user"             // key of the *model.User in a session's values
	startValue       = "start"            // key of the accounts.SessionStart
)

// store is a gorilla sessions.Store on the table sessions. The cookie carries a signed random id,
// and the table only the SHA-256 of that id: neither a copy of the table nor a guess opens a
// session. Deleting the row revokes the session.
//
// Save always issues a new id, which prevents session fixation. A forged, expired or revoked cookie
// is no session; only a database error is returned.
type store struct {
	accounts *accounts.Store
	name     string
	codec    *cookieSigner
	options  sessions.Options
	now      func() time.Time
}

func newStore(a *accounts.Store, codec *cookieSigner, secure bool, now func() time.Time) *store {
	s := &store{
		accounts: a,
		name:     sessionName,
		codec:    codec,
		now:      now,
		options: sessions.Options{
			Path: "/", MaxAge: int(model.SessionLifetime / time.Second),
			HttpOnly: true, Secure: secure, SameSite: http.SameSiteLaxMode,
		},
	}

	if secure {
		s.name = sessionNameHTTPS
	}

	return s
}

// Get returns the request's session. It is looked up once per request.
func (s *store) Get(r *http.Request, name string) (*sessions.Session, error) {
	return sessions.GetRegistry(r).Get(s, name)
}

// New returns the session of the request's cookie, or a new empty one.
func (s *store) New(r *http.Request, name string) (*sessions.Session, error) {
	session := sessions.NewSession(s, name)
	options := s.options
	session.Options = &options
	session.IsNew = true

	cookie, err := r.Cookie(name)
	if err != nil {
		return session, nil
	}

	var id []byte
	if s.codec.Decode(name, cookie.Value, &id) != nil {
		return session, nil
	}

	user, err := s.accounts.Sessions.User(r.Context(), model.HashToken(string(id)), model.At(s.now()))
	if model.KindOf(err) == model.NotFound {
		return session, nil
	}
	if err != nil {
		return session, err
	}

	session.ID, session.IsNew = string(id), false
	setUser(session, user)
	return session, nil
}

// Save replaces the session by one under a new id and sets the cookie. It returns model.ErrNotFound
// if the user's password has changed since it was checked. With a negative MaxAge it deletes the
// session and the cookie. It must be called before the body is written.
func (s *store) Save(r *http.Request, w http.ResponseWriter, session *sessions.Session) error {
	// nil without a session
	var old []byte

	if session.ID != "" {
		old = model.HashToken(session.ID)
	}

	if session.Options.MaxAge < 0 {
		if old != nil {
			if err := s.accounts.Sessions.Delete(r.Context(), old); err != nil {
				return err
			}
		}

		session.ID, session.Values = "", map[any]any{}
		http.SetCookie(w, sessions.NewCookie(session.Name(), "", session.Options))
		return nil
	}

	// 260 random bits
	id := rand.Text() + rand.Text()
	encoded, err := s.codec.Encode(session.Name(), []byte(id))
	if err != nil {
		return err
	}

	now := model.At(s.now())
	user := userOf(session)
	start, _ := session.Values[startValue].(accounts.SessionStart)
	start.Session = model.Session{
		IDHash: model.HashToken(id), UserID: user.ID, CreatedAt: now, ProviderAccount: user.Provider,
	}
	start.PasswordHash, start.Replaced = user.PasswordHash, old
	if err := s.accounts.Sessions.Create(r.Context(), start); err != nil {
		return err
	}

	session.ID, session.IsNew = id, false
	http.SetCookie(w, sessions.NewCookie(session.Name(), encoded, session.Options))
	return nil
}

func userOf(session *sessions.Session) *model.User {
	user, _ := session.Values[userValue].(*model.User)
	return user
}

func setUser(session *sessions.Session, user *model.User) { session.Values[userValue] = user }
