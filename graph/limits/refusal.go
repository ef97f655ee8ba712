package limits

import (
	"math"
	"time"

	"github.com/99designs/gqlgen/graphql/errcode"
	"github.com/vektah/gqlparser/v2/gqlerror"

	"github.com/tallygate/tallygate/graph/generated"
)

// Refusal returns a top-level error with a code of the schema and a message that is safe to show.
func Refusal(code generated.ErrorCode, format string, args ...any) *gqlerror.Error {
	err := gqlerror.Errorf(format, args...)
	errcode.Set(err, string(code))
	return err
}

// RefusalFor is Refusal with extensions.retryAfter, in whole seconds rounded up.
func RefusalFor(code generated.ErrorCode, retryAfter time.Duration, message string) *gqlerror.Error {
	err := Refusal(code, "%s", message)
	err.Extensions["retryAfter"] = Seconds(retryAfter)
	return err
}

// Seconds rounds a wait up to whole seconds.
func Seconds(d time.Duration) int64 { return int64(math.Ceil(d.Seconds())) }

// Impatience is the message to a caller that ignores Retry-After.
const Impatience = "Requests were sent before the time given in Retry-After."

// OtherOrigin is the answer to a request that a browser sent for a page of another origin.
func OtherOrigin() *gqlerror.Error {
	return Refusal(generated.ErrorCodeCrossOrigin, "The request was sent by a page of another origin.")
}
