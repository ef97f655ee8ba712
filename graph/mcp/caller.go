package mcp

import (
	"context"
	"crypto/sha256"
	"net/http"
	"strings"
	"sync"
	"time"

	"github.com/hashicorp/golang-lru/v2/simplelru"

	"github.com/tallygate/tallygate/db/cputime"
	"github.com/tallygate/tallygate/db/model"
	"github.com/tallygate/tallygate/graph/auth"
	"github.com/tallygate/tallygate/graph/generated"
	"github.com/tallygate/tallygate/graph/limits"
)

// PasswordHeader is the header with the password of a shared link.
const PasswordHeader = "Tallygate-Link-Password"

const missingToken = "Send an API token with the scope READ, or the token of a shared link, as Authorization: Bearer."

// call is one HTTP request with its caller.
type call struct {
	server        *server
	http          *http.Request // with the deadline of tools
	authorization string        // for GraphQL
	caller        auth.Caller
	work          *cputime.Meter // of the message, without GraphQL's; nil: not measured
}

type callKey struct{}

// callOf returns the request that a message came with.
func callOf(ctx context.Context) *call { return ctx.Value(callKey{}).(*call) }

// isReader reports whether the caller reads through a shared link.
func (c *call) isReader() bool { return c.caller.Shared != nil }

// callerKind says which tools a caller can use.
type callerKind int

const (
	readsLink  callerKind = iota // through a shared link
	reads                        // without the permission CONFIGURE
	configures                   // on any site
	callerKinds
)

func kindOf(caller auth.Caller) callerKind {
	switch {
	case caller.Shared != nil:
		return readsLink
	case caller.User.CheckInAny(model.MayConfigure, caller.Token) != nil:
		return reads
	}
	return configures
}

// authenticate identifies the caller by its token alone: cookies do not count here.
func (s *server) authenticate(r *http.Request, work *cputime.Meter) (*call, *refusal) {
	token, ok := auth.Bearer(r)
	if !ok || token == "" {
		return nil, unauthenticated(missingToken)
	}

	c := &call{server: s, http: r, authorization: "Bearer " + token, work: work}
	if strings.HasPrefix(token, model.SharedLinkPrefix) {
		// GraphQL reads a link through a viewer token, which expires, and never by the link's own
		// token.
		viewer, refused := s.openLink(c, token, r.Header.Get(PasswordHeader))
		if refused != nil {
			return nil, refused
		}
		c.authorization = "Bearer " + viewer
	}

	caller, err := s.Auth.Program(c.request(r.Context()))
	if err != nil {
		return nil, s.refusal(r, err)
	}
	c.caller = caller
	return c, nil
}

// openLinkDocument exchanges the token of a shared link for a viewer token.
const openLinkDocument = `mutation OpenSharedLink($input: OpenSharedLinkInput!) {
  openSharedLink(input: $input) { viewerToken expiresAt userErrors { code message } }
}`

// openLink returns a viewer token for a shared link, through GraphQL, which counts wrong passwords.
func (s *server) openLink(c *call, token, password string) (string, *refusal) {
	key := sha256.Sum256([]byte(token + "\x00" + password))
	if viewer := s.links.get(key, s.Now()); viewer != "" {
		return viewer, nil
	}

	input := map[string]any{"token": token}
	if password != "" {
		input["password"] = password
	}

	// A caller with a token cannot open a link.
	open := *c
	open.authorization, open.work = "", nil // this is no part of a measured run
	response := open.run(c.http.Context(), &document{text: openLinkDocument, variables: map[string]any{"input": input}})
	if response.fault != nil {
		c.server.logFault(c.http.Context(), "openSharedLink", response.fault)
	}

	if len(response.Errors) > 0 {
		e := response.Errors[0]
		refusal := limits.Refusal(generated.ErrorCode(e.Extensions.Code), "%s", e.Message)
		if e.Extensions.RetryAfter > 0 {
			refusal.Extensions["retryAfter"] = e.Extensions.RetryAfter
		}
		return "", refusalOf(refusal)
	}

	var opened struct {
		OpenSharedLink struct {
			ViewerToken string
			ExpiresAt   time.Time
			UserErrors  []struct{ Code, Message string }
		}
	}
	if err := response.decode(&opened); err != nil {
		return "", s.refusal(c.http, err)
	}

	payload := opened.OpenSharedLink
	if len(payload.UserErrors) > 0 {
		message := payload.UserErrors[0].Message
		if payload.UserErrors[0].Code == string(generated.UserErrorCodePasswordRequired) {
			message += " Send it in the header " + PasswordHeader + "."
		}
		return "", unauthenticated(message)
	}

	s.links.add(key, viewer{payload.ViewerToken, payload.ExpiresAt})
	return payload.ViewerToken, nil
}

// maxLinks is how many viewer tokens are kept.
const maxLinks = 1000

// links keeps the viewer tokens of shared links, so that not each message checks a password. It is
// no session: each request with a viewer token reads its link again, and another process opens the
// link itself.
type links struct {
	mu     sync.Mutex
	opened *simplelru.LRU[[sha256.Size]byte, viewer]
}

type viewer struct {
	token   string
	expires time.Time
}

func newLinks() *links {
	opened, err := simplelru.NewLRU[[sha256.Size]byte, viewer](maxLinks, nil)
	if err != nil {
		// Only a size below 1 fails.
		panic(err)
	}
	return &links{opened: opened}
}

func (l *links) get(key [sha256.Size]byte, now time.Time) string {
	l.mu.Lock()
	defer l.mu.Unlock()
	v, ok := l.opened.Get(key)
	if !ok || !now.Add(time.Minute).Before(v.expires) {
		return ""
	}
	return v.token
}

func (l *links) add(key [sha256.Size]byte, v viewer) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.opened.Add(key, v)
}
