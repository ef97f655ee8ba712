package mcp

import (
	"context"
	"net/http"

	"github.com/tallygate/tallygate/db/cputime"
	"github.com/tallygate/tallygate/db/model"
	"github.com/tallygate/tallygate/graph/auth"
	"github.com/tallygate/tallygate/graph/inprocess"
)

const missingToken = "Send an API token with the scope READ, or the token of a shared link, as Authorization: Bearer."

type callKey struct{}

// callOf returns the request that a message came with.
func callOf(ctx context.Context) *inprocess.Call { return ctx.Value(callKey{}).(*inprocess.Call) }

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

// authenticate identifies the caller by its token alone.
func (s *server) authenticate(r *http.Request, work *cputime.Meter) (*inprocess.Call, *refusal) {
	token, ok := auth.Bearer(r)
	if !ok || token == "" {
		return nil, unauthenticated(missingToken)
	}

	call, err := s.API.Call(r, token, work)
	if err != nil {
		return nil, refusalOf(err)
	}
	return call, nil
}
