package graph

import (
	"net/http"
	"time"
)

// NewWithin is New with another bound on the time of a request, and other points of an account; 0
// leaves one as it is.
func NewWithin(o Options, timeout time.Duration, points int) (http.Handler, error) {
	b := bounds{timeout: timeout, points: points}

	if timeout == 0 {
		b.timeout = requestTimeout
	}
	if points == 0 {
		b.points = pointsPerMinute
	}

	return newWithin(o, b)
}
