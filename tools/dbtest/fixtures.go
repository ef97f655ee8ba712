package dbtest

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/tallygate/tallygate/db/model"
	"github.com/tallygate/tallygate/tools/testkit"
)

// Start is the time at which tests with a simulated clock start.
var Start = model.At(time.Date(2026, 11, 20, 9, 30, 0, 0, time.UTC))

// Noon is noon on the day of Start.
var Noon = model.At(time.Date(2026, 11, 20, 12, 0, 0, 0, time.UTC))

// WantCode checks that err is a model.Error with this kind, code and field.
func WantCode(t *testing.T, err error, kind model.Kind, code, field string) {
	t.Helper()
	e, ok := errors.AsType[*model.Error](err)
	if !ok || e.Kind != kind || e.Code != code || e.Field != field {
		t.Fatalf("got error %v, want kind %d, code %q, field %q", err, kind, code, field)
	}
}

// PgStrings runs a query of one text column.
func PgStrings(t *testing.T, databaseURL, query string) []string {
	t.Helper()

	conn, err := pgx.Connect(t.Context(), databaseURL)
	testkit.NoError(t, err)
	defer conn.Close(context.Background())

	rows, err := conn.Query(t.Context(), query)
	testkit.NoError(t, err)

	found, err := pgx.CollectRows(rows, pgx.RowTo[string])
	testkit.NoError(t, err)

	return found
}
