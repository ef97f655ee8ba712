package graph

import (
	"context"

	"github.com/99designs/gqlgen/graphql"
	"github.com/prometheus/client_golang/prometheus"
	"github.com/vektah/gqlparser/v2/gqlerror"

	"github.com/tallygate/tallygate/graph/generated"
)

// errorCounters count the top-level errors by code.
type errorCounters struct {
	vec    *prometheus.CounterVec
	byCode map[string]prometheus.Counter // of all codes of the schema; never changed
}

func newErrorCounters() *errorCounters {
	c := &errorCounters{
		vec: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "tallygate_graphql_errors_total",
			Help: "Top-level errors of GraphQL requests by code. Refusals before a request is run are among the statuses of " +
				"/graphql instead.",
		}, []string{"code"}),
		byCode: make(map[string]prometheus.Counter, len(generated.AllErrorCode)),
	}

	for _, code := range generated.AllErrorCode {
		c.byCode[string(code)] = c.vec.WithLabelValues(string(code))
	}
	return c
}

// counted returns an error presenter that counts what another one presents.
func (c *errorCounters) counted(present graphql.ErrorPresenterFunc) graphql.ErrorPresenterFunc {
	return func(ctx context.Context, err error) *gqlerror.Error {
		shown := present(ctx, err)
		if code, ok := shown.Extensions["code"].(string); ok && c.byCode[code] != nil {
			c.byCode[code].Inc()
		}
		return shown
	}
}
