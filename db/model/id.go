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
	AccountID    int64
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
	SiteID       int64
	SitekeyID    int64
	UserID       int64
)

// RowID is one of these numbers.
type RowID interface {
	~int64

	// Kind returns the kind of the row.
	Kind() NodeKind
}

type nodeIDsKey struct{}

// WithNodeIDs returns a context in which GraphQL writes ids.
func WithNodeIDs(ctx context.Context, ids *NodeIDs) context.Context {
	return context.WithValue(ctx, nodeIDsKey{}, ids)
}

// writeID writes the id of a row as JSON.
func writeID[ID RowID](ctx context.Context, w io.Writer, id ID) error {
	ids, ok := ctx.Value(nodeIDsKey{}).(*NodeIDs)
	if !ok {
		return errors.New("the context has no ids")
	}

	_, err := io.WriteString(w, strconv.Quote(IDOf(ids, id)))
	return err
}

// errIDInput is returned for an id in an input. gqlgen calls it for no input: the inputs are
// strings.
var errIDInput = errors.New("ids are read as strings")

// Kind implements RowID for each kind, MarshalGQLContext and UnmarshalGQLContext the marshaler of
// gqlgen.

func (AccountID) Kind() NodeKind { return NodeAccount }

func (id AccountID) MarshalGQLContext(ctx context.Context, w io.Writer) error {
	return writeID(ctx, w, id)
}

func (*AccountID) UnmarshalGQLContext(context.Context, any) error { return errIDInput }

func (AnnotationID) Kind() NodeKind { return NodeAnnotation }

func (id AnnotationID) MarshalGQLContext(ctx context.Context, w io.Writer) error {
	return writeID(ctx, w, id)
}

func (*AnnotationID) UnmarshalGQLContext(context.Context, any) error { return errIDInput }

func (APITokenID) Kind() NodeKind { return NodeAPIToken }

func (id APITokenID) MarshalGQLContext(ctx context.Context, w io.Writer) error {
	return writeID(ctx, w, id)
}

func (*APITokenID) UnmarshalGQLContext(context.Context, any) error { return errIDInput }

func (ErasureID) Kind() NodeKind { return NodeErasure }

func (id ErasureID) MarshalGQLContext(ctx context.Context, w io.Writer) error {
	return writeID(ctx, w, id)
}

func (*ErasureID) UnmarshalGQLContext(context.Context, any) error { return errIDInput }

func (FunnelID) Kind() NodeKind { return NodeFunnel }

func (id FunnelID) MarshalGQLContext(ctx context.Context, w io.Writer) error {
	return writeID(ctx, w, id)
}

func (*FunnelID) UnmarshalGQLContext(context.Context, any) error { return errIDInput }

func (ImportID) Kind() NodeKind { return NodeImport }

func (id ImportID) MarshalGQLContext(ctx context.Context, w io.Writer) error {
	return writeID(ctx, w, id)
}

func (*ImportID) UnmarshalGQLContext(context.Context, any) error { return errIDInput }

func (ImportJobID) Kind() NodeKind { return NodeImportJob }

func (id ImportJobID) MarshalGQLContext(ctx context.Context, w io.Writer) error {
	return writeID(ctx, w, id)
}

func (*ImportJobID) UnmarshalGQLContext(context.Context, any) error { return errIDInput }

func (InvitationID) Kind() NodeKind { return NodeInvitation }

func (id InvitationID) MarshalGQLContext(ctx context.Context, w io.Writer) error {
	return writeID(ctx, w, id)
}

func (*InvitationID) UnmarshalGQLContext(context.Context, any) error { return errIDInput }

func (PasskeyID) Kind() NodeKind { return NodePasskey }

func (id PasskeyID) MarshalGQLContext(ctx context.Context, w io.Writer) error {
	return writeID(ctx, w, id)
}

func (*PasskeyID) UnmarshalGQLContext(context.Context, any) error { return errIDInput }

func (SegmentID) Kind() NodeKind { return NodeSegment }

func (id SegmentID) MarshalGQLContext(ctx context.Context, w io.Writer) error {
	return writeID(ctx, w, id)
}

func (*SegmentID) UnmarshalGQLContext(context.Context, any) error { return errIDInput }

func (SharedLinkID) Kind() NodeKind { return NodeSharedLink }

func (id SharedLinkID) MarshalGQLContext(ctx context.Context, w io.Writer) error {
	return writeID(ctx, w, id)
}

func (*SharedLinkID) UnmarshalGQLContext(context.Context, any) error { return errIDInput }

func (SiteID) Kind() NodeKind { return NodeSite }

func (id SiteID) MarshalGQLContext(ctx context.Context, w io.Writer) error {
	return writeID(ctx, w, id)
}

func (*SiteID) UnmarshalGQLContext(context.Context, any) error { return errIDInput }

func (SitekeyID) Kind() NodeKind { return NodeSitekey }

func (id SitekeyID) MarshalGQLContext(ctx context.Context, w io.Writer) error {
	return writeID(ctx, w, id)
}

func (*SitekeyID) UnmarshalGQLContext(context.Context, any) error { return errIDInput }

func (UserID) Kind() NodeKind { return NodeUser }

func (id UserID) MarshalGQLContext(ctx context.Context, w io.Writer) error {
	return writeID(ctx, w, id)
}

func (*UserID) UnmarshalGQLContext(context.Context, any) error { return errIDInput }
