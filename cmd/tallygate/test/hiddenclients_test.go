package test

import (
	"encoding/json"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/cookiejar"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/tallygate/tallygate/db/model"
	"github.com/tallygate/tallygate/tools/testkit"
)

// sourceNAT forwards connections to an address from an address of its own, and returns where it
// listens. So do load balancers and gateways in front of a proxy, which then sees one client.
func sourceNAT(t *testing.T, to, own string) (addr string) {
	t.Helper()

	listener, err := net.Listen("tcp", "127.0.0.1:0")
	testkit.NoError(t, err)

	dialer := &net.Dialer{LocalAddr: &net.TCPAddr{IP: net.ParseIP(own)}}
	var connections sync.WaitGroup
	connections.Go(func() {
		for {
			client, err := listener.Accept()
			if err != nil {
				return
			}
			connections.Go(func() { forwardConnection(client, dialer, to) })
		}
	})
	t.Cleanup(func() {
		listener.Close()
		connections.Wait()
	})

	return listener.Addr().String()
}

// forwardConnection copies both directions of a connection until either end closes it.
func forwardConnection(client net.Conn, dialer *net.Dialer, to string) {
	defer client.Close()
	server, err := dialer.Dial("tcp", to)
	if err != nil {
		return // the client sees a closed connection
	}

	go func() {
		_, _ = io.Copy(server, client)
		server.Close()
	}()
	_, _ = io.Copy(client, server)
}

// natAddress is the address of the hop that hides the clients. The tests' nodes trust its network.
const natAddress = "127.0.0.9"

// attack is what a client sends: more than the limits of a network.
type attack struct {
	client  *http.Client
	siteKey string
	elapsed time.Duration // time that all of it took

	stored     atomic.Int64 // hits that were answered with success
	challenges atomic.Int64 // challenges that were issued
	signIns    atomic.Int64 // sign-ins that the throttle refused
}

// What an attack sends. The limits are 1,000 hits at once, 300 challenges and 30 failures to sign
// in.
const (
	attackHits       = 1_100
	attackChallenges = 400
	attackSignIns    = 40
)

// run sends the attack's hits and challenges from eight connections, then its sign-ins.
func (a *attack) run(t *testing.T) {
	t.Helper()
	before := time.Now()

	var hits, challenges atomic.Int64
	var group sync.WaitGroup
	for range 8 {
		group.Go(func() {
			for n := hits.Add(1); n <= attackHits; n = hits.Add(1) {
				a.hit(t, n)
			}
			for challenges.Add(1) <= attackChallenges {
				a.challenge(t)
			}
		})
	}
	group.Wait()
	a.elapsed = time.Since(before)

	for n := range attackSignIns {
		a.signIn(t, n)
	}
}

// hit sends a page view, again while the node answers that it is too busy to store it in time.
func (a *attack) hit(t *testing.T, n int64) {
	for deadline := time.Now().Add(patience); ; {
		status, err := sendPageviewFrom(a.client, "https://crash.localhost", "https://stats.example.com", a.siteKey, fmt.Sprint("/", n))
		switch {
		case err == nil && status == http.StatusNoContent:
			a.stored.Add(1)
			return
		case err != nil || status != http.StatusServiceUnavailable || time.Now().After(deadline):
			t.Errorf("hit %d: %d, %v", n, status, err)
			return
		}
	}
}

// challenge asks for a challenge of the captcha.
func (a *attack) challenge(t *testing.T) {
	response, err := a.client.Post("https://stats.example.com/api/v1/pow/config", "application/json",
		strings.NewReader(`{"sitekey":"`+model.TestSitekey+`"}`))
	if err != nil {
		t.Error(err)
		return
	}
	response.Body.Close()

	switch response.StatusCode {
	case http.StatusOK:
		a.challenges.Add(1)
	case http.StatusTooManyRequests:
	default:
		t.Errorf("challenge: %s", response.Status)
	}
}

// signIn tries a wrong password of a user of its own.
func (a *attack) signIn(t *testing.T, n int) {
	query := fmt.Sprintf(`mutation { signIn(input: {email: "unknown%d@example.com", password: "a wrong password"}) { viewer { email } userErrors { code } } }`, n)
	body, err := json.Marshal(map[string]string{"query": query})
	testkit.NoError(t, err)

	response, answer := exchange(t, a.client, http.MethodPost, "https://app.example.com/graphql", string(body),
		map[string]string{"Content-Type": "application/json"})
	switch {
	case strings.Contains(answer, "RATE_LIMITED"):
		a.signIns.Add(1)
	case !strings.Contains(answer, "WRONG_CREDENTIALS"):
		t.Errorf("sign-in %d: %s %s", n, response.Status, answer)
	}
}

// TestProxyHiddenClients: source NAT in front of the shipped examples hides the clients at an
// address of the trusted networks. None of them is stopped by what the others send, and operators
// see why. Clients that are not hidden have their limits.
func TestProxyHiddenClients(t *testing.T) {
	t.Parallel()

	for name, balancer := range loadBalancers {
		for _, hidden := range []bool{true, false} {
			t.Run(fmt.Sprintf("%s, hidden %t", name, hidden), func(t *testing.T) {
				t.Parallel()

				settings := settingsFor(t, "sqlite:")
				settings["TALLYGATE_TRUSTED_PROXIES"] = "127.0.0.0/24"
				settings["TALLYGATE_FLOOD_BURST"], settings["TALLYGATE_FLOOD_RATE"] = "1000", "1"
				settings["TALLYGATE_BASE_URL"] = "https://app.example.com"
				p := start(t, settings, []string{"control", "data"})

				addr, roots, _ := balancer.start(t, map[string]string{
					"10.0.0.11:8081": p.addr["data"], "10.0.0.12:8081": p.addr["data"],
					"10.0.0.11:8080": p.addr["control"], "10.0.0.12:8080": p.addr["control"],
				})
				if hidden {
					addr = sourceNAT(t, addr, natAddress)
				}

				// The attacker and the owner are in different networks, both untrusted.
				attacker, owner := clientTo(t, addr, roots, "127.0.7.7"), clientTo(t, addr, roots, "127.0.8.8")
				jar, err := cookiejar.New(nil)
				testkit.NoError(t, err)
				owner.Jar = jar
				o := ownerAt(t, "https://app.example.com", owner)
				site := o.signUp("crash.localhost")

				a := &attack{client: attacker, siteKey: site.SiteKey}
				a.run(t)

				status, err := sendPageviewFrom(owner, "https://crash.localhost", "https://stats.example.com", site.SiteKey, "/last")
				if err != nil || status != http.StatusNoContent {
					t.Errorf("a hit of another client: %d, %v", status, err)
				}

				if hidden {
					a.wantNothingLost(t, o.used(site.ID))
				} else {
					a.wantLimits(t, o.used(site.ID))
				}
				o.signIn("crash.localhost")
				wantReported(t, p, o, hidden)
			})
		}
	}
}

// wantNothingLost checks that no limit by network stopped the attack. Another client's hit is
// stored in addition to its own.
func (a *attack) wantNothingLost(t *testing.T, stored int) {
	t.Helper()
	if stored != attackHits+1 || a.stored.Load() != attackHits || a.challenges.Load() != attackChallenges || a.signIns.Load() != 0 {
		t.Errorf("%d of %d hits are stored, %d of %d challenges issued, %d of %d sign-ins refused", stored, attackHits+1,
			a.challenges.Load(), attackChallenges, a.signIns.Load(), attackSignIns)
	}
}

// wantLimits checks that the limits stopped the attack. On a slow machine the buckets have time to
// refill.
func (a *attack) wantLimits(t *testing.T, stored int) {
	t.Helper()

	const burst, challenges = 1_000, 300
	mostHits := min(attackHits, burst+int(a.elapsed/time.Second)+1) + 1
	mostChallenges := min(attackChallenges, challenges+int(a.elapsed/(200*time.Millisecond))+1)

	if stored < burst+1 || stored > mostHits {
		t.Errorf("%d hits are stored, want %d to %d", stored, burst+1, mostHits)
	}
	if n := int(a.challenges.Load()); n < challenges || n > mostChallenges {
		t.Errorf("%d challenges are issued, want %d to %d", n, challenges, mostChallenges)
	}
}

// wantReported checks that log, readiness and console report hidden clients, or do not, and name no
// address.
func wantReported(t *testing.T, p *process, o *testOwner, hidden bool) {
	t.Helper()

	want := 0
	if hidden {
		want = 1
	}
	const warning = "X-Forwarded-For leads to an address within TALLYGATE_TRUSTED_PROXIES"
	for _, role := range []string{"control", "data"} {
		status, body := get(t, "http://"+p.addr[role]+"/readyz")
		if status != http.StatusOK || strings.Count(body, "\nwarning: ") != want || strings.Count(body, warning) != want {
			t.Errorf("%s: %d %q, want %d warning", role, status, body, want)
		}
	}

	got := o.data(`{ installationHealth { problems } }`)
	if strings.Contains(got, `"unknown-proxy"`) || strings.Contains(got, `"hidden-clients"`) != hidden {
		t.Errorf("the console shows %s", got)
	}

	p.kill()
	log := p.logged()
	if strings.Count(log, warning) != 2*want || strings.Contains(log, natAddress) || strings.Contains(log, "127.0.7.7") {
		t.Errorf("want %d warnings without an address, one of each process, got:\n%s", 2*want, log)
	}
}

// TestWideProxyNetworks checks that a start with a wide network of trusted proxies is logged, and
// one with a narrow network is not.
func TestWideProxyNetworks(t *testing.T) {
	t.Parallel()

	settings := settingsFor(t, "sqlite:")
	settings["TALLYGATE_TRUSTED_PROXIES"] = "127.0.0.0/8,10.0.0.0/8,172.16.0.0/12,fd00::/8,fd12:3456:789a::/48"
	p := start(t, settings, []string{"control", "data"})
	p.kill()

	var networks []string
	for line := range strings.Lines(p.logged()) {
		var entry struct{ Level, Msg, Network string }
		if json.Unmarshal([]byte(line), &entry) == nil && strings.Contains(entry.Msg, "TALLYGATE_TRUSTED_PROXIES") {
			networks = append(networks, entry.Level+" "+entry.Network)
		}
	}
	testkit.Equal(t, strings.Join(networks, ", "), "WARN 10.0.0.0/8, WARN fd00::/8", "the log warns of")
}
