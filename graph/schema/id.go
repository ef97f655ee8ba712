package schema

import (
	"context"
	"errors"
	"io"
	"strconv"

	"github.com/99designs/gqlgen/graphql"

	"github.com/tallygate/tallygate/db/model"
	"github.com/tallygate/tallygate/db/nodeid"
)

type idsKey struct{}

// WithIDs returns a context in which GraphQL writes ids.
func WithIDs(ctx context.Context, ids *nodeid.IDs) context.Context {
	return context.WithValue(ctx, idsKey{}, ids)
}

// marshalID writes the id of a row.
func marshalID[ID nodeid.Number](id ID) graphql.ContextMarshaler {
	return graphql.ContextWriterFunc(func(ctx context.Context, w io.Writer) error {
		ids, ok := ctx.Value(idsKey{}).(*nodeid.IDs)
		if !ok {
			return errors.New("the context has no ids")
		}
		_, err := io.WriteString(w, strconv.Quote(nodeid.Of(ids, id)))
		return err
	})
}

// errIDInput is returned for an id in an input. gqlgen calls it for no input: inputs and arguments
// are strings, which the rules of access read.
var errIDInput = errors.New("ids are read as strings")

// gqlgen calls a Marshal function for fields of the type of its argument.

func MarshalAccountID(id model.AccountID) graphql.ContextMarshaler { return marshalID(id) }

func UnmarshalAccountID(context.Context, any) (model.AccountID, error) { return 0, errIDInput }

func MarshalAnnotationID(id model.AnnotationID) graphql.ContextMarshaler { return marshalID(id) }

func UnmarshalAnnotationID(context.Context, any) (model.AnnotationID, error) { return 0, errIDInput }

func MarshalAPITokenID(id model.APITokenID) graphql.ContextMarshaler { return marshalID(id) }

func UnmarshalAPITokenID(context.Context, any) (model.APITokenID, error) { return 0, errIDInput }

func MarshalErasureID(id model.ErasureID) graphql.ContextMarshaler { return marshalID(id) }

func UnmarshalErasureID(context.Context, any) (model.ErasureID, error) { return 0, errIDInput }

func MarshalFunnelID(id model.FunnelID) graphql.ContextMarshaler { return marshalID(id) }

func UnmarshalFunnelID(context.Context, any) (model.FunnelID, error) { return 0, errIDInput }

func MarshalImportID(id model.ImportID) graphql.ContextMarshaler { return marshalID(id) }

func UnmarshalImportID(context.Context, any) (model.ImportID, error) { return 0, errIDInput }

func MarshalImportJobID(id model.ImportJobID) graphql.ContextMarshaler { return marshalID(id) }

func UnmarshalImportJobID(context.Context, any) (model.ImportJobID, error) { return 0, errIDInput }

func MarshalInvitationID(id model.InvitationID) graphql.ContextMarshaler { return marshalID(id) }

func UnmarshalInvitationID(context.Context, any) (model.InvitationID, error) { return 0, errIDInput }

func MarshalPasskeyID(id model.PasskeyID) graphql.ContextMarshaler { return marshalID(id) }

func UnmarshalPasskeyID(context.Context, any) (model.PasskeyID, error) { return 0, errIDInput }

func MarshalSegmentID(id model.SegmentID) graphql.ContextMarshaler { return marshalID(id) }

func UnmarshalSegmentID(context.Context, any) (model.SegmentID, error) { return 0, errIDInput }

func MarshalSharedLinkID(id model.SharedLinkID) graphql.ContextMarshaler { return marshalID(id) }

func UnmarshalSharedLinkID(context.Context, any) (model.SharedLinkID, error) { return 0, errIDInput }

func MarshalSiteID(id model.SiteID) graphql.ContextMarshaler { return marshalID(id) }

func UnmarshalSiteID(context.Context, any) (model.SiteID, error) { return 0, errIDInput }

func MarshalSitekeyID(id model.SitekeyID) graphql.ContextMarshaler { return marshalID(id) }

func UnmarshalSitekeyID(context.Context, any) (model.SitekeyID, error) { return 0, errIDInput }

func MarshalUserID(id model.UserID) graphql.ContextMarshaler { return marshalID(id) }

func UnmarshalUserID(context.Context, any) (model.UserID, error) { return 0, errIDInput }
