package resolver

import (
	"errors"
	"fmt"
	"strings"

	"github.com/tallygate/tallygate/db/model"
	"github.com/tallygate/tallygate/graph/generated"
	"github.com/tallygate/tallygate/graph/limits"
)

// Mistakes in a mutation's input, which its payload reports. Package graph presents the other
// errors.

// userErrors converts an error to the entries of a mutation's userErrors. Joined errors become one
// entry each. It returns err itself if one of them has no code of the schema's UserErrorCode.
//
// Codes are in lower case in Go, like those of the contract's HTTP endpoints, and in upper case in
// the schema.
func userErrors(err error) ([]*generated.UserError, error) {
	found := []*generated.UserError{}
	for _, one := range model.Joined(err) {
		e, ok := errors.AsType[*model.Error](one)
		if !ok {
			return nil, err
		}

		code := generated.UserErrorCode(strings.ToUpper(e.Code))
		if !code.IsValid() {
			return nil, err
		}

		found = append(found, &generated.UserError{Code: code, Field: fieldPath(e.Field), Message: e.Message})
	}

	return found, nil
}

// fieldPath returns the path of an input field, beginning with the mutation's argument; nil for no
// field.
func fieldPath(field string) []string {
	if field == "" {
		return nil
	}
	return append([]string{"input"}, strings.Split(field, ".")...)
}

// notFound is the error of an id that does not exist or belongs to another account.
func notFound(field string) error {
	return &model.Error{
		Kind: model.NotFound, Code: model.ErrNotFound.Code, Field: field, Message: model.ErrNotFound.Message,
	}
}

// orNotFound adds the field of the id to model.ErrNotFound.
func orNotFound(field string, err error) error {
	if errors.Is(err, model.ErrNotFound) {
		return notFound(field)
	}
	return err
}

// invalidArgument is the error of an argument outside of its range.
func invalidArgument(field, message string) error {
	return model.InvalidField(field, "invalid_argument", message)
}

// checkDays checks the argument days of fields that show the last days.
func checkDays(days int) error {
	if days < 1 || days > limits.MaxDays {
		return invalidArgument("days", fmt.Sprintf("The argument days must be from 1 to %d.", limits.MaxDays))
	}
	return nil
}
