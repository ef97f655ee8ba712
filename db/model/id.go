package model

import (
	"context"
	"errors"
	"io"
	"strconv"
)

// The numbers of rows by kind, so that numbers of two kinds cannot be swapped. GraphQL shows each
// as the id of its kind, see WithNodeIDs. Arguments are read by the rules of access instead.
type (
	AnnotationID int64
	APITokenID   int64
	ErasureID    int64
	FunnelID     int64
	ImportID     int64
	ImportJobID  int64
	InvitationID int64
	PasskeyID    int64
	SegmentID    int64
	SharedLinkID int64
)

type nodeIDsKey struct{}

// WithNodeIDs returns a context in which GraphQL writes ids.
func WithNodeIDs(ctx context.Context, ids *NodeIDs) context.Context {
	return context.WithValue(ctx, nodeIDsKey{}, ids)
}

// writeID writes the id of a row as JSON.
func writeID(ctx context.Context, w io.Writer, kind NodeKind, id int64) error {
	ids, ok := ctx.Value(nodeIDsKey{}).(*NodeIDs)
	if !ok {
		return errors.New("the context has no ids")
	}

	_, err := io.WriteString(w, strconv.Quote(ids.Of(kind, id)))
	return err
}

// errIDInput is returned for an id in an input. gqlgen calls it for no input: the inputs are
// strings.
var errIDInput = errors.New("ids are read as strings")

// MarshalGQLContext and UnmarshalGQLContext implement the marshaler of gqlgen for each kind.

func (id AnnotationID) MarshalGQLContext(ctx context.Context, w io.Writer) error {
	return writeID(ctx, w, NodeAnnotation, int64(id))
}

func (*AnnotationID) UnmarshalGQLContext(context.Context, any) error { return errIDInput }

func (id APITokenID) MarshalGQLContext(ctx context.Context, w io.Writer) error {
	return writeID(ctx, w, NodeAPIToken, int64(id))
}

func (*APITokenID) UnmarshalGQLContext(context.Context, any) error { return errIDInput }

func (id ErasureID) MarshalGQLContext(ctx context.Context, w io.Writer) error {
	return writeID(ctx, w, NodeErasure, int64(id))
}

func (*ErasureID) UnmarshalGQLContext(context.Context, any) error { return errIDInput }

func (id FunnelID) MarshalGQLContext(ctx context.Context, w io.Writer) error {
	return writeID(ctx, w, NodeFunnel, int64(id))
}

func (*FunnelID) UnmarshalGQLContext(context.Context, any) error { return errIDInput }

func (id ImportID) MarshalGQLContext(ctx context.Context, w io.Writer) error {
	return writeID(ctx, w, NodeImport, int64(id))
}

func (*ImportID) UnmarshalGQLContext(context.Context, any) error { return errIDInput }

func (id ImportJobID) MarshalGQLContext(ctx context.Context, w io.Writer) error {
	return writeID(ctx, w, NodeImportJob, int64(id))
}

func (*ImportJobID) UnmarshalGQLContext(context.Context, any) error { return errIDInput }

func (id InvitationID) MarshalGQLContext(ctx context.Context, w io.Writer) error {
	return writeID(ctx, w, NodeInvitation, int64(id))
}

func (*InvitationID) UnmarshalGQLContext(context.Context, any) error { return errIDInput }

func (id PasskeyID) MarshalGQLContext(ctx context.Context, w io.Writer) error {
	return writeID(ctx, w, NodePasskey, int64(id))
}

func (*PasskeyID) UnmarshalGQLContext(context.Context, any) error { return errIDInput }

func (id SegmentID) MarshalGQLContext(ctx context.Context, w io.Writer) error {
	return writeID(ctx, w, NodeSegment, int64(id))
}

func (*SegmentID) UnmarshalGQLContext(context.Context, any) error { return errIDInput }

func (id SharedLinkID) MarshalGQLContext(ctx context.Context, w io.Writer) error {
	return writeID(ctx, w, NodeSharedLink, int64(id))
}

func (*SharedLinkID) UnmarshalGQLContext(context.Context, any) error { return errIDInput }
