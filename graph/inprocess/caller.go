package inprocess

import (
	"crypto/sha256"
	"net/http"
	"strings"
	"sync"
	"time"

	"github.com/hashicorp/golang-lru/v2/simplelru"
	"github.com/vektah/gqlparser/v2/gqlerror"

	"github.com/tallygate/tallygate/db/cputime"
	"github.com/tallygate/tallygate/db/model"
	"github.com/tallygate/tallygate/graph/generated"
	"github.com/tallygate/tallygate/graph/limits"
)

// PasswordHeader is the header with the password of a shared link.
const PasswordHeader = "Tallygate-Link-Password"

// Call identifies the caller of a request by a token alone, an API token or the token of a shared
// link: cookies do not count. It returns an error of GraphQL: UNAUTHENTICATED for a wrong token.
func (a *API) Call(r *http.Request, token string, work *cputime.Meter) (*Call, *gqlerror.Error) {
	c := &Call{API: a, HTTP: r, Authorization: "Bearer " + token, Work: work}
	if strings.HasPrefix(token, model.SharedLinkPrefix) {
		// GraphQL reads a link through a viewer token, which expires, and never by the link's own
		// token.
		viewer, refused := c.openLink(token, r.Header.Get(PasswordHeader))
		if refused != nil {
			return nil, refused
		}
		c.Authorization = "Bearer " + viewer
	}

	caller, err := a.Auth.Program(c.request(r.Context()))
	if err != nil {
		return nil, a.Present(r.Context(), err)
	}
	c.Caller = caller
	return c, nil
}

// openLinkQuery exchanges the token of a shared link for a viewer token.
const openLinkQuery = `mutation OpenSharedLink($input: OpenSharedLinkInput!) {
  openSharedLink(input: $input) { viewerToken expiresAt userErrors { code message } }
}`

// openLink returns a viewer token for a shared link, through GraphQL, which counts wrong passwords.
func (c *Call) openLink(token, password string) (string, *gqlerror.Error) {
	a, ctx := c.API, c.HTTP.Context()
	key := sha256.Sum256([]byte(token + "\x00" + password))
	if viewer := a.links.get(key, a.Now()); viewer != "" {
		return viewer, nil
	}

	input := map[string]any{"token": token}
	if password != "" {
		input["password"] = password
	}

	// A caller with a token cannot open a link.
	open := *c
	open.Authorization, open.Work = "", nil // this is no part of a measured run
	response := open.Run(ctx, openLinkQuery, map[string]any{"input": input})
	if response.Fault != nil {
		a.Log.ErrorContext(ctx, "a shared link was not opened", "error", response.Fault)
	}

	if len(response.Errors) > 0 {
		e := response.Errors[0]
		refusal := limits.Refusal(generated.ErrorCode(e.Extensions.Code), "%s", e.Message)
		if e.Extensions.RetryAfter > 0 {
			refusal.Extensions["retryAfter"] = e.Extensions.RetryAfter
		}
		return "", refusal
	}

	var opened struct {
		OpenSharedLink struct {
			ViewerToken string
			ExpiresAt   time.Time
			UserErrors  []struct{ Code, Message string }
		}
	}
	if err := response.Decode(&opened); err != nil {
		return "", a.Present(ctx, err)
	}

	payload := opened.OpenSharedLink
	if len(payload.UserErrors) > 0 {
		message := payload.UserErrors[0].Message
		if payload.UserErrors[0].Code == string(generated.UserErrorCodePasswordRequired) {
			message += " Send it in the header " + PasswordHeader + "."
		}
		return "", limits.Refusal(generated.ErrorCodeUnauthenticated, "%s", message)
	}

	a.links.add(key, viewer{payload.ViewerToken, payload.ExpiresAt})
	return payload.ViewerToken, nil
}

// Status returns the HTTP status of an error of GraphQL that refuses a whole request.
func Status(err *gqlerror.Error) int {
	switch err.Extensions["code"] {
	case string(generated.ErrorCodeUnauthenticated):
		return http.StatusUnauthorized
	case string(generated.ErrorCodeRateLimited):
		return http.StatusTooManyRequests
	case string(generated.ErrorCodeInternal):
		return http.StatusInternalServerError
	}
	return http.StatusServiceUnavailable
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
