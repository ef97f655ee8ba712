package graph

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"math"
	"runtime/debug"

	"github.com/99designs/gqlgen/graphql"
	"github.com/99designs/gqlgen/graphql/errcode"
	"github.com/vektah/gqlparser/v2/gqlerror"

	"github.com/tallygate/tallygate/db/model"
	"github.com/tallygate/tallygate/graph/generated"
)

// This file is the one place where errors become answers. An error is one of three things: a mistake in a form, which a
// mutation's userErrors report; a documented top-level code; or our own trouble, of which the caller learns nothing but
// the number under which it was logged.

// userErrors splits what a mutation's call returned into the mistakes to report and the error that is left. Joined errors
// are reported one by one. The codes that belong here are the schema's UserErrorCode.
func userErrors(err error) ([]*generated.UserError, error) {
	found := []*generated.UserError{}
	for _, one := range joined(err) {
		e, ok := errors.AsType[*model.Error](one)
		if !ok || !generated.UserErrorCode(e.Code).IsValid() {
			return nil, err
		}
		u := &generated.UserError{Code: generated.UserErrorCode(e.Code), Message: e.Message}
		if e.Field != "" {
			u.Field = &e.Field
		}
		found = append(found, u)
	}
	return found, nil
}

func joined(err error) []error {
	if err == nil {
		return nil
	}
	if many, ok := err.(interface{ Unwrap() []error }); ok {
		return many.Unwrap()
	}
	return []error{err}
}

// presenter makes the top-level errors.
type presenter struct{ log *slog.Logger }

// libraryCodes are the codes that gqlgen puts on its own errors, as the schema's ErrorCode names them.
var libraryCodes = map[string]generated.ErrorCode{
	errcode.ParseFailed:         generated.ErrorCodeParseFailed,
	errcode.ValidationFailed:    generated.ErrorCodeValidationFailed,
	"COMPLEXITY_LIMIT_EXCEEDED": generated.ErrorCodeTooComplex,
}

// present is gqlgen's error presenter: it sees every error once, at the end of its way.
func (p presenter) present(ctx context.Context, err error) *gqlerror.Error {
	shown := &gqlerror.Error{Path: graphql.GetPath(ctx)}
	library, isLibrary := errors.AsType[*gqlerror.Error](err)
	if isLibrary {
		shown.Locations = library.Locations
		if library.Path != nil {
			shown.Path = library.Path
		}
	}
	if e, ok := errors.AsType[*model.Error](err); ok && generated.ErrorCode(e.Code).IsValid() {
		shown.Message = e.Message
		shown.Extensions = map[string]any{"code": e.Code}
		if e.RetryAfter > 0 {
			shown.Extensions["retryAfter"] = int64(math.Ceil(e.RetryAfter.Seconds()))
		}
		return shown
	}
	// An error that gqlgen or its parser made carries a code and wraps nothing. All others come from our code.
	if isLibrary && library.Err == nil {
		code, _ := library.Extensions["code"].(string)
		if known, ok := libraryCodes[code]; ok {
			code = string(known)
		}
		if generated.ErrorCode(code).IsValid() {
			shown.Message = library.Message
			shown.Extensions = map[string]any{"code": code}
			return shown
		}
	}
	id := requestID(ctx)
	p.logInternal(ctx, err, id, shown)
	shown.Message = "Something went wrong on our side. It is logged under the number " + id + "."
	shown.Extensions = map[string]any{"code": string(generated.ErrorCodeInternal), "requestId": id}
	return shown
}

func (p presenter) logInternal(ctx context.Context, err error, id string, shown *gqlerror.Error) {
	if ctx.Err() != nil && errors.Is(err, context.Canceled) {
		return // the caller has gone; nobody's mistake
	}
	attrs := []slog.Attr{slog.String("request_id", id), slog.String("path", shown.Path.String())}
	if panicked, ok := errors.AsType[*panicError](err); ok {
		attrs = append(attrs, slog.String("stack", string(panicked.stack)))
	}
	if library, ok := errors.AsType[*gqlerror.Error](err); ok && library.Err != nil {
		err = library.Err // without the path again
	}
	p.log.LogAttrs(ctx, slog.LevelError, "graphql", append(attrs, slog.Any("error", err))...)
}

// panicError is a panic on its way to the presenter.
type panicError struct {
	value any
	stack []byte
}

func (e *panicError) Error() string { return fmt.Sprintf("panic: %v", e.value) }

// recovered is gqlgen's recover function.
func recovered(_ context.Context, value any) error {
	return &panicError{value: value, stack: debug.Stack()}
}

// libraryError is an error that the presenter shows as it is.
func libraryError(code generated.ErrorCode, format string, args ...any) *gqlerror.Error {
	err := gqlerror.Errorf(format, args...)
	errcode.Set(err, string(code))
	return err
}
