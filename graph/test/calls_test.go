package graph_test

import (
	"fmt"
	"strings"
	"testing"

	"github.com/tallygate/tallygate/db"
	"github.com/tallygate/tallygate/tools/dbtest"
	"github.com/tallygate/tallygate/tools/testkit"
)

// eachApp runs a parallel test on each engine, with an application on a database of its own.
func eachApp(t *testing.T, test func(t *testing.T, a *app)) {
	t.Helper()
	eachAppWith(t, func(*settings) {}, test)
}

// eachOwner is eachApp with the owner of an account.
func eachOwner(t *testing.T, test func(t *testing.T, a *app, owner *client)) {
	t.Helper()
	eachApp(t, func(t *testing.T, a *app) { test(t, a, a.owner("owner@example.com")) })
}

// eachAppWith is eachApp with a setting.
func eachAppWith(t *testing.T, change setting, test func(t *testing.T, a *app)) {
	t.Helper()
	dbtest.Parallel(t, func(t *testing.T, d *db.DB) { test(t, newApp(t, d, change)) })
}

// sqliteApp returns the application of a parallel test that needs one engine.
func sqliteApp(t *testing.T, change ...setting) *app {
	t.Helper()
	t.Parallel()
	return newApp(t, dbtest.Open(t, dbtest.SQLiteURL(t)), change...)
}

// unlimited raises the rate limit above the cost of any test.
func unlimited(s *settings) { s.graph.CostPerMinute = 1 << 30 }

// do runs a mutation with fields of its input, given in pairs, and selects the fields of the
// payload and of the objects in it.
func (c *client) do(mutation string, input ...any) *answer {
	c.t.Helper()
	fields := map[string]any{}
	for i := 0; i < len(input); i += 2 {
		fields[input[i].(string)] = input[i+1]
	}

	f := schema.Mutation.Fields.ForName(mutation)
	if f == nil {
		c.t.Fatalf("no mutation %s", mutation)
	}
	return c.query(fmt.Sprintf("mutation($input: %s) { %s(input: $input) %s }", f.Arguments.ForName("input").Type, mutation,
		selection(f.Type.Name(), 2)), "input", fields)
}

// done is do, and ends the test on errors and userErrors.
func (c *client) done(mutation string, input ...any) *answer {
	c.t.Helper()
	return c.do(mutation, input...).ok(c.t, mutation)
}

// site reads fields of a site.
func (c *client) site(id any, fields string) *answer {
	c.t.Helper()
	return c.query("query($id: ID!) { site(id: $id) { "+fields+" } }", "id", id)
}

// named sets a name of the answer for the messages of failed checks.
func (a *answer) named(format string, args ...any) *answer {
	a.name = fmt.Sprintf(format, args...) + ": "
	return a
}

// fails checks the userErrors of a mutation, as userErrors returns them; "" for none.
func (a *answer) fails(t testing.TB, mutation, want string) *answer {
	t.Helper()
	if got := a.userErrors(mutation); got != want {
		t.Errorf("%suserErrors %q, want %q: %s", a.name, got, want, a.Body)
	}
	return a
}

// code checks the codes of the top-level errors; "" for none.
func (a *answer) code(t testing.TB, want string) *answer {
	t.Helper()
	if got := a.codes(); got != want {
		t.Errorf("%scodes %q, want %q: %s", a.name, got, want, a.Body)
	}
	return a
}

// has checks the value at a dotted path of the data.
func (a *answer) has(t testing.TB, path string, want any) *answer {
	t.Helper()
	if got := a.at(path); got != want {
		t.Errorf("%s%s is %v, want %v: %s", a.name, path, got, want, a.Body)
	}
	return a
}

// is checks the whole body.
func (a *answer) is(t testing.TB, want string) *answer {
	t.Helper()
	if a.Body != want {
		t.Errorf("%s%s\nwant %s", a.name, a.Body, want)
	}
	return a
}

// shows checks that the body contains a text.
func (a *answer) shows(t testing.TB, text string) *answer {
	t.Helper()
	if !strings.Contains(a.Body, text) {
		t.Errorf("%sno %s in %s", a.name, text, a.Body)
	}
	return a
}

// hides checks that the body does not contain a text.
func (a *answer) hides(t testing.TB, text string) *answer {
	t.Helper()
	if strings.Contains(a.Body, text) {
		t.Errorf("%s%s in %s", a.name, text, a.Body)
	}
	return a
}

// set checks that there is a value at a dotted path of the data.
func (a *answer) set(t testing.TB, path string) *answer {
	t.Helper()
	if a.at(path) == nil {
		t.Errorf("%sno %s: %s", a.name, path, a.Body)
	}
	return a
}

// prints checks the value at a dotted path of the data as fmt.Sprint prints it.
func (a *answer) prints(t testing.TB, path, want string) *answer {
	t.Helper()
	if got := fmt.Sprint(a.at(path)); got != want {
		t.Errorf("%s%s is %s, want %s: %s", a.name, path, got, want, a.Body)
	}
	return a
}

// status checks the status code.
func (a *answer) status(t testing.TB, want int) *answer {
	t.Helper()
	if a.Status != want {
		t.Errorf("%sstatus %d, want %d: %s", a.name, a.Status, want, a.Body)
	}
	return a
}

// retries checks the extension retryAfter of the first error.
func (a *answer) retries(t testing.TB, want any) *answer {
	t.Helper()
	if len(a.Errors) == 0 || a.Errors[0].Extensions["retryAfter"] != want {
		t.Errorf("%sretryAfter is not %v: %s", a.name, want, a.Body)
	}
	return a
}

// equal checks a value. format and args name it.
func equal[T comparable](t testing.TB, got, want T, format string, args ...any) {
	t.Helper()
	if got != want {
		t.Errorf("%s: %v, want %v", fmt.Sprintf(format, args...), got, want)
	}
}

// differ checks that a value is not another one. format and args name it.
func differ[T comparable](t testing.TB, got, not T, format string, args ...any) {
	t.Helper()
	if got == not {
		t.Errorf("%s: %v", fmt.Sprintf(format, args...), got)
	}
}

// value returns a function that returns v, or ends the test on an error.
func value[T any](v T, err error) func(t testing.TB) T {
	return func(t testing.TB) T {
		t.Helper()
		must(t, err)
		return v
	}
}

// must ends the test on an error.
func must(t testing.TB, err error) {
	t.Helper()
	testkit.NoError(t, err)
}
