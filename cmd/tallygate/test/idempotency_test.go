package test

import (
	"bytes"
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"net/http"
	"sync"
	"testing"
	"time"

	"github.com/tallygate/tallygate/tools/dbtest"
	"github.com/tallygate/tallygate/tools/testkit"
)

// createKeyed creates a sitekey with an idempotency key, and returns its id and secret. It returns
// an error if the process does not answer.
func (o *testOwner) createKeyed(name string) (id, secret string, err error) {
	body, _ := json.Marshal(map[string]string{"query": fmt.Sprintf(`mutation { createSitekey(input: {name: %q, idempotencyKey: %q}) {
		sitekey { id } secret userErrors { code } } }`, name, "key of "+name)})
	response, err := o.HTTP.Post(o.Origin+"/graphql", "application/json", bytes.NewReader(body))
	if err != nil {
		return "", "", err
	}
	defer response.Body.Close()

	var answer struct {
		Data struct {
			CreateSitekey struct {
				Sitekey    struct{ ID string }
				Secret     string
				UserErrors []any
			}
		}
		Errors []any
	}
	if err := json.NewDecoder(response.Body).Decode(&answer); err != nil {
		return "", "", err
	}
	created := answer.Data.CreateSitekey
	if response.StatusCode != http.StatusOK || len(answer.Errors)+len(created.UserErrors) > 0 || created.Sitekey.ID == "" {
		return "", "", fmt.Errorf("%s: %s, %+v", name, response.Status, answer)
	}
	return created.Sitekey.ID, created.Secret, nil
}

// sitekeys counts the sitekeys of the account by name.
func (o *testOwner) sitekeys() map[string]int {
	var data struct {
		Sitekeys struct{ Nodes []struct{ Name string } }
	}
	o.do(`{ sitekeys(first: 100) { nodes { name } } }`, &data)
	counts := make(map[string]int)
	for _, node := range data.Sitekeys.Nodes {
		counts[node.Name]++
	}
	return counts
}

// TestRepeatedCallsOfTwoProcesses sends each call to two processes at once: both answer with one
// sitekey, and one of them with its secret.
func TestRepeatedCallsOfTwoProcesses(t *testing.T) {
	dbtest.ParallelURL(t, func(t *testing.T, databaseURL string) {
		settings := settingsFor(t, databaseURL)
		var owners [2]*testOwner
		for i := range owners {
			owners[i] = newOwner(t, start(t, settings, []string{"control", "data"}))
			if i == 0 {
				owners[i].signUp("repeat.localhost")
			}
		}
		owners[1].signIn("repeat.localhost")

		const rounds = 8
		for round := range rounds {
			var ids, secrets [2]string
			var errs [2]error
			var wait sync.WaitGroup
			for i, o := range owners {
				wait.Go(func() { ids[i], secrets[i], errs[i] = o.createKeyed(fmt.Sprint("round ", round)) })
			}
			wait.Wait()

			if errs != [2]error{} || ids[0] != ids[1] || (secrets[0] == "") == (secrets[1] == "") {
				t.Errorf("round %d: ids %q, secrets %d and %d characters, errors %v", round, ids, len(secrets[0]), len(secrets[1]), errs)
			}
		}
		if got := owners[0].sitekeys(); len(got) != rounds {
			t.Errorf("the account has the sitekeys %v", got)
		}
	})
}

// TestRepeatAfterAKill kills the process while it runs a call, at a random time, and repeats the
// call: there is one sitekey, whether the call was committed or not.
func TestRepeatAfterAKill(t *testing.T) {
	t.Parallel()
	testkit.SkipLong(t, "faults of processes")
	dbtest.EachURL(t, func(t *testing.T, databaseURL string) {
		settings := settingsFor(t, databaseURL)
		random := rand.New(rand.NewPCG(2026, 11))
		p := start(t, settings, []string{"control", "data"})
		newOwner(t, p).signUp("kill.localhost")

		for round := range 6 {
			o := newOwner(t, p)
			o.signIn("kill.localhost")

			name := fmt.Sprint("round ", round)
			called := make(chan error, 1)
			go func() {
				_, _, err := o.createKeyed(name)
				called <- err
			}()

			// A kill after an event would always find the call at one place.
			time.Sleep(time.Duration(random.IntN(12_000)) * time.Microsecond)
			p.kill()
			answered := <-called == nil

			p = start(t, settings, []string{"control", "data"})
			again := newOwner(t, p)
			again.signIn("kill.localhost")
			before := again.sitekeys()[name]
			if _, secret, err := again.createKeyed(name); err != nil || (secret == "") != (before == 1) || answered && before != 1 {
				t.Errorf("round %d: %d sitekeys after the kill, a secret of %d characters after the repeat, answered %v, error %v",
					round, before, len(secret), answered, err)
			}
			testkit.Equal(t, again.sitekeys()[name], 1, "round %d: sitekeys", round)
		}
	})
}
