package resolver

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

// Sessions, password and address of the caller.

func (r *queryResolver) Sessions(ctx context.Context) ([]*generated.Session, error) {
	current, err := auth.CurrentSession(ctx)
	if err != nil {
		return nil, err
	}

	viewer := memberOf(ctx)
	rows, err := r.auth.Sessions(ctx, viewer)
	list := make([]*generated.Session, len(rows))
	for i, row := range rows {
		list[i] = newSession(row, current)
	}

	return list, err
}

func (r *mutationResolver) RevokeSession(
	ctx context.Context, input generated.RevokeSessionInput,
) (*generated.RevokeSessionPayload, error) {
	idHash, ok := parseSessionID(input.SessionID)
	if !ok {
		return nil, notFound("sessionId")
	}

	viewer := memberOf(ctx)
	if err := r.auth.RevokeSession(ctx, viewer, idHash); err != nil {
		return nil, orNotFound("sessionId", err)
	}

	return &generated.RevokeSessionPayload{SessionID: &input.SessionID}, nil
}

func (r *mutationResolver) ChangePassword(
	ctx context.Context, input generated.ChangePasswordInput,
) (*generated.ChangePasswordPayload, error) {
	viewer, tokens, err := r.auth.ChangePassword(ctx, input.CurrentPassword, input.Password)
	return &generated.ChangePasswordPayload{Viewer: viewer, APITokens: tokens}, err
}

func (r *mutationResolver) RequestPasswordReset(
	ctx context.Context, input generated.RequestPasswordResetInput,
) (*generated.RequestPasswordResetPayload, error) {
	return &generated.RequestPasswordResetPayload{}, r.auth.RequestPasswordReset(ctx, input.Email)
}

func (r *mutationResolver) ResetPassword(
	ctx context.Context, input generated.ResetPasswordInput,
) (*generated.ResetPasswordPayload, error) {
	tokens, err := r.auth.ResetPassword(ctx, input.Token, input.Password)
	return &generated.ResetPasswordPayload{APITokens: tokens}, err
}

func (r *mutationResolver) RequestEmailChange(
	ctx context.Context, input generated.RequestEmailChangeInput,
) (*generated.RequestEmailChangePayload, error) {
	return &generated.RequestEmailChangePayload{}, r.auth.RequestEmailChange(ctx, input.Email, input.Password)
}

func (r *mutationResolver) ConfirmEmailChange(
	ctx context.Context, input generated.ConfirmEmailChangeInput,
) (*generated.ConfirmEmailChangePayload, error) {
	email, err := r.auth.ConfirmEmailChange(ctx, input.Secret)
	return &generated.ConfirmEmailChangePayload{Email: notZero(email)}, err
}

// session returns one of the caller's sessions by its hash; nil for callers without a session.
func (r *Resolver) session(ctx context.Context, viewer *model.User, idHash []byte) (*generated.Session, error) {
	if personal, err := auth.MayPersonal(ctx); !personal || err != nil {
		return nil, err
	}

	current, err := auth.CurrentSession(ctx)
	if err != nil {
		return nil, err
	}

	row, err := orNull(r.auth.Session(ctx, viewer, idHash))
	if row == nil || err != nil {
		return nil, err
	}

	return newSession(row, current), nil
}

func newSession(row *model.Session, current []byte) *generated.Session {
	return &generated.Session{
		ID: sessionID(row.IDHash), Current: bytes.Equal(row.IDHash, current),
		CreatedAt: row.CreatedAt, LastSeenAt: row.LastSeenAt, ExpiresAt: row.ExpiresAt,
	}
}

const sessionIDPrefix = "session_"

// sessionID returns the global id of a session, which has no number: the stored hash of its id,
// which grants nothing.
func sessionID(idHash []byte) string {
	return sessionIDPrefix + base64.RawURLEncoding.EncodeToString(idHash)
}

// parseSessionID accepts exactly what sessionID returns.
func parseSessionID(s string) ([]byte, bool) {
	text, ok := strings.CutPrefix(s, sessionIDPrefix)
	if !ok {
		return nil, false
	}
	idHash, err := base64.RawURLEncoding.DecodeString(text)
	return idHash, err == nil && len(idHash) == sha256.Size && sessionID(idHash) == s
}
