package graph

import (
	"context"
	"errors"
	"log/slog"
	"math"
	"strings"
	"time"

	"github.com/99designs/gqlgen/graphql"
	"github.com/99designs/gqlgen/graphql/errcode"
	"github.com/vektah/gqlparser/v2/gqlerror"

	"github.com/tallygate/tallygate/db"
	"github.com/tallygate/tallygate/db/model"
	"github.com/tallygate/tallygate/graph/generated"
	"github.com/tallygate/tallygate/web"
)

// This file is the one place where errors become answers. An error is one of three things: a
// mistake in a form, which a mutation's userErrors report; a documented top-level code; or our own
// trouble, of which the caller learns nothing but the number under which it was logged.

// userErrors splits what a mutation's call returned into the mistakes to report and the error that
// is left. Joined errors are reported one by one. The codes that belong here are the schema's
// UserErrorCode.
//
// Go code has its codes in lower case, as the contract's HTTP endpoints show them; the schema has
// them in upper case. This file converts them.
func userErrors(err error) ([]*generated.UserError, error) {
	found := []*generated.UserError{}
	for _, one := range joined(err) {
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

// fieldPath is the path of a field of the input, beginning with the mutation's argument; nil for no
// field.
func fieldPath(field string) []string {
	if field == "" {
		return nil
	}
	return append([]string{"input"}, strings.Split(field, ".")...)
}

func joined(err error) []error {
	if err == nil {
		return nil
	}

	if many, ok := err.(interface{ Unwrap() []error }); ok {
		var all []error
		for _, one := range many.Unwrap() {
			all = append(all, joined(one)...)
		}

		return all
	}

	return []error{err}
}

// presenter makes the top-level errors.
type presenter struct {
	log    *slog.Logger
	now    func() time.Time
	stacks *web.Throttle // of panics
	others *web.Throttle // of lines about an unavailable database and about deadlines
}

func newPresenter(log *slog.Logger, now func() time.Time) presenter {
	return presenter{log: log, now: now, stacks: &web.Throttle{}, others: &web.Throttle{}}
}

// libraryCodes are the codes that gqlgen puts on its own errors, as the schema's ErrorCode names
// them.
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

	if e, ok := errors.AsType[*model.Error](err); ok {
		if code := generated.ErrorCode(strings.ToUpper(e.Code)); code.IsValid() {
			shown.Message = e.Message
			shown.Extensions = map[string]any{"code": string(code)}

			if e.RetryAfter > 0 {
				shown.Extensions["retryAfter"] = int64(math.Ceil(e.RetryAfter.Seconds()))
			}

			return shown
		}
	}

	// An error that gqlgen or its parser made carries a code and wraps nothing. All others come
	// from our code.
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

	if temporary := p.temporary(ctx, err); temporary != nil {
		shown.Message, shown.Extensions = temporary.Message, temporary.Extensions
		return shown
	}

	id := requestID(ctx)
	p.logInternal(ctx, err, id, shown)
	shown.Message = "Something went wrong on our side. It is logged under the number " + id + "."
	shown.Extensions = map[string]any{"code": string(generated.ErrorCodeInternal), "requestId": id}

	return shown
}

// unavailableRetry is when it makes sense to ask again a database that is away.
const unavailableRetry = 5 * time.Second

// temporary returns the answer to an error that is not a fault of the program: the request's
// deadline, or a database that is away. It is nil for other errors.
func (p presenter) temporary(ctx context.Context, err error) *gqlerror.Error {
	if _, panicked := errors.AsType[*web.Panic](err); panicked {
		return nil
	}

	var answer *gqlerror.Error
	var line string

	switch {
	case context.Cause(ctx) == errDeadline:
		line, answer = "graphql request stopped at its deadline", timeoutError()
	case db.IsUnavailable(err):
		line, answer = "graphql: the database is not available", libraryError(generated.ErrorCodeUnavailable, "The service cannot answer just now. Try again.")
		answer.Extensions["retryAfter"] = int64(unavailableRetry.Seconds())
	default:
		return nil
	}

	if hasLeft(ctx) {
		return answer
	}
	if skipped, ok := p.others.Pass(p.now()); ok {
		p.log.ErrorContext(ctx, line, "path", graphql.GetPath(ctx).String(), "error", withoutPath(err), "more_since_last", skipped)
	}

	return answer
}

func timeoutError() *gqlerror.Error {
	return libraryError(generated.ErrorCodeTimeout, "The request took longer than %.0f seconds and was stopped.", requestTimeout.Seconds())
}

// busyError refuses a request of which nothing was run.
func busyError(code generated.ErrorCode, retryAfter time.Duration, message string) *gqlerror.Error {
	err := libraryError(code, "%s", message)
	err.Extensions["retryAfter"] = int64(math.Ceil(retryAfter.Seconds()))
	return err
}

// hasLeft reports whether the caller of a request no longer waits for the answer.
func hasLeft(ctx context.Context) bool { return ctx.Err() != nil && context.Cause(ctx) != errDeadline }

// logInternal logs a fault, unless the caller has left and it is no panic: then it comes from the
// cancelled context. A stack is logged at most once a second.
func (p presenter) logInternal(ctx context.Context, err error, id string, shown *gqlerror.Error) {
	panicked, isPanic := errors.AsType[*web.Panic](err)
	if hasLeft(ctx) && !isPanic {
		return
	}

	attrs := []slog.Attr{slog.String("request_id", id), slog.String("path", shown.Path.String())}

	if isPanic {
		if skipped, ok := p.stacks.Pass(p.now()); ok {
			attrs = append(attrs, slog.String("stack", string(panicked.Stack)), slog.Int("stacks_left_out", skipped))
		}
	}

	p.log.LogAttrs(ctx, slog.LevelError, "graphql", append(attrs, slog.Any("error", withoutPath(err)))...)
}

// withoutPath returns the cause of an error to which gqlgen has added its path.
func withoutPath(err error) error {
	if library, ok := errors.AsType[*gqlerror.Error](err); ok && library.Err != nil {
		return library.Err
	}
	return err
}

// recovered is gqlgen's recover function.
func recovered(_ context.Context, value any) error { return web.NewPanic(value) }

// libraryError is an error that the presenter shows as it is.
func libraryError(code generated.ErrorCode, format string, args ...any) *gqlerror.Error {
	err := gqlerror.Errorf(format, args...)
	errcode.Set(err, string(code))
	return err
}
