package graph

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/base64"
	"strings"

	"github.com/tallygate/tallygate/db/model"
	"github.com/tallygate/tallygate/graph/auth"
	"github.com/tallygate/tallygate/graph/generated"
)

// This file is about what is one person's own: sessions, API tokens and points.

const sessionIDPrefix = "session_"

// sessionID is the global id of a session: the hash under which it is stored, which opens nothing.
// A session has no number.
func sessionID(idHash []byte) string {
	return sessionIDPrefix + base64.RawURLEncoding.EncodeToString(idHash)
}

// parseSessionID reads exactly what sessionID writes.
func parseSessionID(s string) ([]byte, bool) {
	text, ok := strings.CutPrefix(s, sessionIDPrefix)
	if !ok {
		return nil, false
	}
	idHash, err := base64.RawURLEncoding.DecodeString(text)
	return idHash, err == nil && len(idHash) == sha256.Size && sessionID(idHash) == s
}

func (r *Resolver) sessions(ctx context.Context) ([]*generated.Session, error) {
	viewer, err := r.require(ctx, model.MayPersonal)
	if err != nil {
		return nil, err
	}

	current, err := auth.CurrentSession(ctx)
	if err != nil {
		return nil, err
	}

	rows, err := r.auth.Sessions(ctx, viewer)
	list := make([]*generated.Session, len(rows))
	for i, row := range rows {
		list[i] = shownSession(row, current)
	}

	return list, err
}

func shownSession(row *model.Session, current []byte) *generated.Session {
	return &generated.Session{
		ID: sessionID(row.IDHash), Current: bytes.Equal(row.IDHash, current),
		CreatedAt: row.CreatedAt, LastSeenAt: row.LastSeenAt, ExpiresAt: row.ExpiresAt,
	}
}

func (r *Resolver) revokeSession(ctx context.Context, id string) (*string, error) {
	viewer, err := r.require(ctx, model.MayPersonal)
	if err != nil {
		return nil, err
	}

	idHash, ok := parseSessionID(id)
	if !ok {
		return nil, notFound("sessionId")
	}
	if err := r.auth.RevokeSession(ctx, viewer, idHash); err != nil {
		return nil, orNotFound("sessionId", err)
	}

	return &id, nil
}

func (r *Resolver) changePassword(ctx context.Context, input generated.ChangePasswordInput) (*model.User, []*model.APIToken, error) {
	if _, err := r.require(ctx, model.MayPersonal); err != nil {
		return nil, nil, err
	}
	return r.auth.ChangePassword(ctx, input.CurrentPassword, input.Password)
}

func (r *Resolver) apiTokens(ctx context.Context) ([]*model.APIToken, error) {
	viewer, err := r.require(ctx, model.MayPersonal)
	if err != nil {
		return nil, err
	}
	tokens, err := r.accounts.APITokens(ctx, viewer.ID)
	return orEmpty(tokens), err
}

func (r *Resolver) createAPIToken(ctx context.Context, input generated.CreateAPITokenInput) (*generated.CreateAPITokenPayload, error) {
	viewer, err := r.require(ctx, model.MayPersonal)
	if err != nil {
		return nil, err
	}

	token, secret, err := r.auth.CreateAPIToken(ctx, viewer, input.Name, input.Scopes)
	wrong, err := userErrors(err)
	if err != nil || len(wrong) > 0 {
		return &generated.CreateAPITokenPayload{UserErrors: wrong}, err
	}

	return &generated.CreateAPITokenPayload{APIToken: token, Token: &secret, UserErrors: wrong}, nil
}

func (r *Resolver) revokeAPIToken(ctx context.Context, id string) (*model.APIToken, error) {
	viewer, err := r.require(ctx, model.MayPersonal)
	if err != nil {
		return nil, err
	}

	number, ok := r.ids.Parse(model.NodeAPIToken, id)
	if !ok {
		return nil, notFound("apiTokenId")
	}

	token, err := r.accounts.DeleteAPIToken(ctx, viewer.ID, number)
	return token, orNotFound("apiTokenId", err)
}

func (r *Resolver) rateLimit(ctx context.Context) (*generated.RateLimit, error) {
	if _, err := r.require(ctx, model.MayRead); err != nil {
		return nil, err
	}

	request := requestOf(ctx)
	request.mu.Lock()
	defer request.mu.Unlock()

	b := request.budget
	return &generated.RateLimit{
		Limit: pointsPerMinute, Cost: b.cost, Remaining: pointsPerMinute - b.used, ResetAt: model.At(b.resetAt),
	}, nil
}
