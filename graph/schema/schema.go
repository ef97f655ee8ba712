// Package schema holds the GraphQL schema (*.graphqls) and the Go types of its Node interface and
// its scalars. The generated code and the resolvers use it. It has no logic beyond encoding.
package schema

import (
	"io"
	"strings"
	"time"

	"github.com/99designs/gqlgen/graphql"

	"github.com/tallygate/tallygate/db/model"
)

// Node is any entity with a global id. The entities of db/model do not depend on GraphQL and share
// no method; the generated code distinguishes them by type.
type Node any

// MarshalDateTime writes a time as RFC 3339 in UTC, with as many decimals as needed. The zero
// Instant is no time: it becomes null.
func MarshalDateTime(i model.Instant) graphql.Marshaler {
	if i == 0 {
		return graphql.Null
	}

	return graphql.WriterFunc(func(w io.Writer) {
		b, err := i.Time().MarshalJSON()
		// RFC 3339 cannot represent the year.
		if err != nil {
			b = []byte("null")
		}
		w.Write(b)
	})
}

// MarshalDate writes a day as YYYY-MM-DD.
func MarshalDate(d model.Day) graphql.Marshaler { return graphql.MarshalString(d.String()) }

// UnmarshalDate reads YYYY-MM-DD.
func UnmarshalDate(v any) (model.Day, error) {
	if s, ok := v.(string); ok {
		if day, err := model.ParseDay(s); err == nil {
			return day, nil
		}
	}
	return 0, &model.Error{Kind: model.Invalid, Code: "invalid_argument", Message: "A Date has the form 2026-11-20."}
}

// UnmarshalDateTime reads RFC 3339 with any offset. Its year in UTC must have four digits too,
// because MarshalDateTime cannot write another one.
func UnmarshalDateTime(v any) (model.Instant, error) {
	s, ok := v.(string)
	if ok {
		t, err := time.Parse(time.RFC3339Nano, s)
		if year := t.UTC().Year(); err == nil && year >= 0 && year <= 9999 {
			return model.At(t), nil
		}
	}

	return 0, &model.Error{
		Kind: model.Invalid, Code: "invalid_argument", Message: "A DateTime has the form 2026-11-20T09:30:00Z.",
	}
}

// MarshalDecimal writes an amount as a string, which no JSON parser rounds.
func MarshalDecimal(m model.Money) graphql.Marshaler { return graphql.MarshalString(m.String()) }

// UnmarshalDecimal is required by the generated code. No input has a Decimal.
func UnmarshalDecimal(any) (model.Money, error) {
	return 0, &model.Error{Kind: model.Invalid, Code: "invalid_argument", Message: "No input takes a Decimal."}
}

// MarshalLowerCase writes the value of an enum that is stored as text in lower case.
func MarshalLowerCase(value string) graphql.Marshaler {
	return graphql.MarshalString(strings.ToUpper(value))
}

// UnmarshalLowerCase reads the value of an enum. Unknown values are refused before it is called.
func UnmarshalLowerCase(v any) (string, error) {
	s, err := graphql.UnmarshalString(v)
	return strings.ToLower(s), err
}
