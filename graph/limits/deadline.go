package limits

import (
	"context"
	"errors"
	"time"

	"github.com/vektah/gqlparser/v2/gqlerror"

	"github.com/tallygate/tallygate/graph/generated"
)

// RequestTimeout bounds a request from its arrival to its response; work in progress is then
// cancelled. It is far below the server's write timeout, after which no response could be sent.
const RequestTimeout = 10 * time.Second

// errDeadline is the cause of contexts that ended with the request's own deadline, as opposed to a
// client that disconnected.
var errDeadline = errors.New("graph: the request exceeded its deadline")

// WithDeadline returns a context that ends after the timeout. Expired and Disconnected distinguish
// the deadline from a disconnected client.
func WithDeadline(ctx context.Context, timeout time.Duration) (context.Context, context.CancelFunc) {
	return context.WithTimeoutCause(ctx, timeout, errDeadline)
}

// Expired reports whether a request has exceeded its own deadline.
func Expired(ctx context.Context) bool { return context.Cause(ctx) == errDeadline }

// Disconnected reports whether the client of a request no longer waits for the response.
func Disconnected(ctx context.Context) bool { return ctx.Err() != nil && !Expired(ctx) }

// TimeoutError is the response to a request that exceeded its deadline.
func TimeoutError() *gqlerror.Error {
	return Refusal(
		generated.ErrorCodeTimeout, "The request took longer than %.0f seconds and was stopped.",
		RequestTimeout.Seconds(),
	)
}
