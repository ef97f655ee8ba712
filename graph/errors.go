package graph

import (
	"context"
	"errors"
	"log/slog"
	"strings"
	"time"

	"github.com/99designs/gqlgen/graphql"
	"github.com/99designs/gqlgen/graphql/errcode"
	"github.com/vektah/gqlparser/v2/gqlerror"

	"github.com/tallygate/tallygate/db"
	"github.com/tallygate/tallygate/db/model"
	"github.com/tallygate/tallygate/graph/generated"
	"github.com/tallygate/tallygate/graph/limits"
	"github.com/tallygate/tallygate/graph/resolver"
	"github.com/tallygate/tallygate/web"
)

// Mistakes in a mutation's input are reported in its userErrors, see package resolver. Any other
// error becomes a top-level error here: it has a documented code, or it is an internal error, of
// which the caller gets only the id under which it was logged.

// presenter builds the top-level errors.
type presenter struct {
	log    *slog.Logger
	now    func() time.Time
	stacks web.Throttle // of panics
	others web.Throttle // of lines about an unavailable database and about deadlines
}

// libraryCodes maps the codes of gqlgen's own errors to the schema's ErrorCode.
var libraryCodes = map[string]generated.ErrorCode{
	errcode.ParseFailed:         generated.ErrorCodeParseFailed,
	errcode.ValidationFailed:    generated.ErrorCodeValidationFailed,
	"COMPLEXITY_LIMIT_EXCEEDED": generated.ErrorCodeTooComplex,
}

// present is gqlgen's error presenter. It is called once for each error.
func (p *presenter) present(ctx context.Context, err error) *gqlerror.Error {
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
				shown.Extensions["retryAfter"] = limits.Seconds(e.RetryAfter)
			}

			return shown
		}
	}

	// An error of gqlgen or its parser has a code and wraps nothing. All others come from this
	// program.
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

	id := resolver.RequestID(ctx)
	p.logInternal(ctx, err, id, shown)
	shown.Message = "Internal error. It was logged with the request id " + id + "."
	shown.Extensions = map[string]any{"code": string(generated.ErrorCodeInternal), "requestId": id}

	return shown
}

// unavailableRetry is the retry time sent while the database is unavailable.
const unavailableRetry = 5 * time.Second

// temporary returns the response to an error that is no fault of the program: an exceeded deadline,
// or an unavailable database. It is nil for other errors.
func (p *presenter) temporary(ctx context.Context, err error) *gqlerror.Error {
	if _, panicked := errors.AsType[*web.Panic](err); panicked {
		return nil
	}

	var answer *gqlerror.Error
	var line string

	switch {
	case limits.Expired(ctx):
		line, answer = "graphql request stopped at its deadline", limits.TimeoutError()
	case db.IsUnavailable(err):
		line = "graphql: the database is not available"
		answer = limits.RefusalFor(
			generated.ErrorCodeUnavailable, unavailableRetry, "The service is temporarily unavailable. Try again.",
		)
	default:
		return nil
	}

	if limits.Disconnected(ctx) {
		return answer
	}
	if skipped, ok := p.others.Pass(p.now()); ok {
		p.log.ErrorContext(
			ctx, line, "path", graphql.GetPath(ctx).String(), "error", withoutPath(err), "more_since_last", skipped,
		)
	}

	return answer
}

// logInternal logs an internal error. Without a panic, it skips errors after the client
// disconnected: they come from the cancelled context. It logs at most one stack per second.
func (p *presenter) logInternal(ctx context.Context, err error, id string, shown *gqlerror.Error) {
	panicked, isPanic := errors.AsType[*web.Panic](err)
	if limits.Disconnected(ctx) && !isPanic {
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

// withoutPath returns the cause of an error that gqlgen has wrapped with its path.
func withoutPath(err error) error {
	if library, ok := errors.AsType[*gqlerror.Error](err); ok && library.Err != nil {
		return library.Err
	}
	return err
}

// recovered is gqlgen's recover function.
func recovered(_ context.Context, value any) error { return web.NewPanic(value) }
