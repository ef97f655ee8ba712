// Package schema is the Go side of what the schema files declare and no entity is: the Node
// interface and the scalars. The generated code and the resolvers use it.
package schema

import (
	"io"
	"time"

	"github.com/99designs/gqlgen/graphql"

	"github.com/tallygate/tallygate/db/model"
)

// Node is any entity with a global id. The entities know nothing of GraphQL, so they share no
// method either; the generated code tells them apart by their type.
type Node any

// MarshalDateTime writes a moment as RFC 3339 in UTC, with as many decimals as it has.
func MarshalDateTime(i model.Instant) graphql.Marshaler {
	return graphql.WriterFunc(func(w io.Writer) {
		b, err := i.Time().MarshalJSON()
		// a year that RFC 3339 cannot write
		if err != nil {
			b = []byte("null")
		}
		w.Write(b)
	})
}

// UnmarshalDateTime reads RFC 3339 with any offset.
func UnmarshalDateTime(v any) (model.Instant, error) {
	s, ok := v.(string)
	if ok {
		if t, err := time.Parse(time.RFC3339Nano, s); err == nil {
			return model.At(t), nil
		}
	}

	return 0, &model.Error{
		Kind: model.Invalid, Code: "invalid_argument", Message: "A DateTime is written like 2026-11-20T09:30:00Z.",
	}
}
