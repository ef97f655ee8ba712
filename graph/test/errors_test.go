package graph_test

import (
	"encoding/json"
	"net/http"
	"net/netip"
	"strings"
	"testing"

	"github.com/vektah/gqlparser/v2/ast"

	"github.com/tallygate/tallygate/db"
	"github.com/tallygate/tallygate/tools/dbtest"
)

// record is one line of the log.
type record struct {
	Level     string
	Msg       string
	RequestID string `json:"request_id"`
	Path      string
	Error     string
	Stack     string
}

func (a *app) records() []record {
	a.t.Helper()

	var records []record
	for _, line := range strings.Split(strings.TrimSpace(a.log.String()), "\n") {
		if line == "" {
			continue
		}

		var r record
		if err := json.Unmarshal([]byte(line), &r); err != nil {
			a.t.Fatalf("log line %s: %v", line, err)
		}

		records = append(records, r)
	}

	return records
}

// wantInternal checks that the response contains only the request id, and that the log has one
// record with it.
func (a *app) wantInternal(got *answer, status int, path, logged string) {
	a.t.Helper()

	records := a.records()
	if got.Status != status || got.codes() != "INTERNAL" || len(records) != 1 {
		a.t.Fatalf("status %d, %s, log %+v; want %d, one error internal, one record", got.Status, got.Body, records, status)
	}

	id := got.Errors[0].Extensions["requestId"]
	if r := records[0]; id == "" || r.RequestID != id || got.Header.Get("X-Request-Id") != id ||
		r.Level != "ERROR" || r.Path != path || !strings.Contains(r.Error, logged) {
		a.t.Errorf("answer %s with header %q, log %+v; want path %q and %q", got.Body, got.Header.Get("X-Request-Id"), r, path, logged)
	}

	got.named("the response reveals %q", logged).hides(a.t, logged)
}

func TestDatabaseErrorsAreHidden(t *testing.T) {
	dbtest.Parallel(t, func(t *testing.T, d *db.DB) {
		tests := []struct{ name, query, path string }{
			{"query", `{ viewer { email } }`, "viewer"},
			{"sign-in", `mutation { signIn(input: {email: "owner@example.com", password: "12345678"}) { userErrors { code } } }`, "signIn"},
			{
				name:  "sign-up",
				query: `mutation { signUp(input: {email: "new@example.com", password: "correct horse battery", accountName: "a"}) { userErrors { code } } }`,
				path:  "signUp",
			},
		}

		a := newApp(t, d)
		c := a.owner("owner@example.com")
		d.Close()

		for _, test := range tests {
			a.log.Reset()
			got := c.query(test.query)
			a.wantInternal(got, http.StatusOK, test.path, "closed")

			if strings.Contains(a.log.String(), "owner@example.com") {
				t.Errorf("%s: the address is in the log: %s", test.name, a.log.String())
			}
		}
	})
}

func TestPanicsAreHidden(t *testing.T) {
	dbtest.Parallel(t, func(t *testing.T, d *db.DB) {
		a := newApp(t, d, func(s *settings) {
			s.auth.ClientAddr = func(*http.Request) netip.Addr { panic("a programmer's mistake") }
		})

		got := a.client().signIn("owner@example.com", password)
		a.wantInternal(got, http.StatusOK, "signIn", "a programmer's mistake")

		if stack := a.records()[0].Stack; !strings.Contains(stack, "SignIn") {
			t.Errorf("the stack does not show where: %s", stack)
		}
	})
}

// With the database closed every field fails in the same way and reveals nothing about it.
func TestNoFieldTellsDatabaseErrors(t *testing.T) {
	eachApp(t, func(t *testing.T, a *app) {
		owner := a.tenant("example.com")
		a.db.Close()

		for op, def := range map[ast.Operation]*ast.Definition{ast.Query: schema.Query, ast.Mutation: schema.Mutation} {
			for _, f := range fieldsOf(def) {
				if f.Name == "installation" || f.Name == "passkeySignIn" || f.Name == "invitationOffer" {
					// They read no row: the first one while sign-ups are open, the last one for a
					// secret of the wrong form.
					continue
				}

				a.log.Reset()
				got := owner.owner.call(t, op, f, func(name string) string { return owner.ids[name] })
				if known := strings.Contains(got.Body, "INVALID_TOKEN") || strings.Contains(got.Body, "INVALID_LINK") ||
					strings.Contains(got.Body, "PASSKEYS_UNAVAILABLE") || strings.Contains(got.Body, "PROVIDER_EXPIRED"); known {
					// The secret is rejected by its form already, and the passkey by the
					// installation's address, and the sign-in without its cookie.
					continue
				}

				if got.codes() != "INTERNAL" || strings.Contains(got.Body, "sql") || strings.Contains(got.Body, "closed") || len(a.records()) != 1 {
					t.Errorf("%s answers %s, and logs %s", f.Name, got.Body, a.log)
				}
			}
		}
	})
}
