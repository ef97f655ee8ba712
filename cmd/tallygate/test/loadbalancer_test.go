package test

import (
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"fmt"
	"io"
	"maps"
	"math/big"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/tallygate/tallygate/tools/dbtest"
	"github.com/tallygate/tallygate/tools/testkit"
)

// loadBalancer is one of the shipped examples in docs/operator/proxies.
type loadBalancer struct {
	program, file string

	// test are replacements in the file in addition to the addresses, which keep the program in a
	// folder.
	test func(dir string) []string
	args func(dir, file string) []string
}

var loadBalancers = map[string]loadBalancer{
	"haproxy": {
		program: "haproxy", file: "haproxy.cfg",
		test: func(dir string) []string {
			return []string{
				"\tbind :::443 v6only ssl crt /etc/haproxy/certificates/ alpn h2,http/1.1\n", "",
				"bind :443", "bind 127.0.0.1:PORT", "/etc/haproxy/certificates/", filepath.Join(dir, "both.pem"),
				"maxconn 20000", "maxconn 500", // a test's process may have few descriptors
				"global\n", "global\n\tstats socket ipv4@STATS\n", // the path of a Unix socket could be too long
			}
		},
		args: func(_, file string) []string { return []string{"-db", "-f", file} },
	},
	"nginx": {
		program: "nginx", file: "nginx.conf",
		test: func(dir string) []string {
			replaced := []string{
				"worker_connections 10000", "worker_connections 500",
				"\t\tlisten [::]:443 ssl http2;\n", "",
				"listen 443", "listen 127.0.0.1:PORT",
				"/etc/nginx/certificates/example.com.pem", filepath.Join(dir, "both.pem"),
				"/etc/nginx/certificates/example.com.key", filepath.Join(dir, "both.pem"),
			}
			return append(replaced, "http {\n", "http {\n"+nginxFolders(dir))
		},
		args: nginxArgs,
	},
}

// run starts the program with the shipped file and the given addresses of nodes. It returns a
// client that connects to the program whatever the host, and the program's folder.
func (b loadBalancer) run(t *testing.T, nodes map[string]string) (client *http.Client, dir string) {
	t.Helper()
	addr, roots, dir := b.start(t, nodes)
	return clientTo(t, addr, roots, "127.0.0.1"), dir
}

// start is run without a client: it returns the program's address and what trusts its certificate.
func (b loadBalancer) start(t *testing.T, nodes map[string]string) (addr string, roots *x509.CertPool, dir string) {
	t.Helper()
	program := requireTool(t, b.program)

	example := readFile(t, "../../../docs/operator/proxies/"+b.file)
	dir = t.TempDir()
	roots = writeCertificate(t, filepath.Join(dir, "both.pem"))
	addr = dbtest.FreeAddress(t)
	_, port, _ := net.SplitHostPort(addr)
	text := strings.NewReplacer(b.test(dir)...).Replace(example)
	for from, to := range nodes {
		if !strings.Contains(text, from) {
			t.Fatalf("the example has no node %s", from)
		}
		text = strings.ReplaceAll(text, from, to)
	}

	stats := dbtest.FreeAddress(t)
	file := writeFile(t, dir, b.file, strings.NewReplacer("PORT", port, "STATS", stats).Replace(text))
	writeFile(t, dir, "stats", stats)
	runProxy(t, addr, exec.Command(program, b.args(dir, file)...))

	return addr, roots, dir
}

// clientTo returns a client that connects to an address whatever the host, from an address of this
// machine.
func clientTo(t *testing.T, addr string, roots *x509.CertPool, from string) *http.Client {
	t.Helper()

	dialer := &net.Dialer{LocalAddr: &net.TCPAddr{IP: net.ParseIP(from)}}
	transport := &http.Transport{
		TLSClientConfig:     &tls.Config{RootCAs: roots},
		MaxIdleConnsPerHost: senders,
		ForceAttemptHTTP2:   true,
	}
	transport.DialContext = func(ctx context.Context, network, _ string) (net.Conn, error) {
		return dialer.DialContext(ctx, network, addr)
	}
	t.Cleanup(transport.CloseIdleConnections)

	return &http.Client{Transport: transport, Timeout: patience}
}

// writeCertificate writes a certificate for the example's host names with its key, and returns a
// pool that trusts it.
func writeCertificate(t *testing.T, file string) *x509.CertPool {
	t.Helper()

	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	testkit.NoError(t, err)

	template := &x509.Certificate{
		SerialNumber: big.NewInt(1), Subject: pkix.Name{CommonName: "example.com"},
		DNSNames:  []string{"app.example.com", "stats.example.com"},
		NotBefore: time.Now().Add(-time.Hour), NotAfter: time.Now().Add(time.Hour),
	}
	der, err := x509.CreateCertificate(rand.Reader, template, template, &key.PublicKey, key)
	testkit.NoError(t, err)
	secret, err := x509.MarshalPKCS8PrivateKey(key)
	testkit.NoError(t, err)

	certificate := pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der})
	both := append(certificate, pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: secret})...)
	testkit.NoError(t, os.WriteFile(file, both, 0o600))

	pool := x509.NewCertPool()
	pool.AppendCertsFromPEM(certificate)
	return pool
}

// awaitHAProxyServer waits until HAProxy's checks of the first data node have succeeded.
func awaitHAProxyServer(t *testing.T, dir string) {
	t.Helper()

	stats := readFile(t, filepath.Join(dir, "stats"))
	testkit.AwaitState(t, "the node to come up again", func() (state string, up bool) {
		conn, err := net.Dial("tcp", stats)
		testkit.NoError(t, err)
		defer conn.Close()
		fmt.Fprint(conn, "show stat data 4 -1\n")
		answer, err := io.ReadAll(conn)
		testkit.NoError(t, err)

		for line := range strings.Lines(string(answer)) {
			if strings.HasPrefix(line, "data,data1,") {
				state = line
			}
		}
		return state, strings.Contains(state, ",UP,")
	})
}

// seen is what a node got of a request.
type seen struct{ node, host, address string }

// recorder is a node that records requests by their path.
func recorder(t *testing.T, name string, requests *sync.Map) string {
	t.Helper()
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if id := r.Header.Get("X-Id"); id != "" {
			requests.Store(id, seen{name, r.Host, r.Header.Get("X-Forwarded-For")})
		}
		w.WriteHeader(http.StatusNoContent)
	}))
	t.Cleanup(server.Close)
	return strings.TrimPrefix(server.URL, "http://")
}

// TestProxyWithoutReadyNodes checks that HAProxy passes calls to a node that runs while no node is
// ready, and that it prefers one that is.
func TestProxyWithoutReadyNodes(t *testing.T) {
	t.Parallel()

	var ready [2]atomic.Bool
	var nodes [2]string
	for i := range nodes {
		server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			if r.URL.Path == "/readyz" && !ready[i].Load() {
				w.WriteHeader(http.StatusServiceUnavailable)
			}
			fmt.Fprint(w, i)
		}))
		t.Cleanup(server.Close)
		nodes[i] = strings.TrimPrefix(server.URL, "http://")
	}

	client, _ := loadBalancers["haproxy"].run(t, map[string]string{
		"10.0.0.11:8081": nodes[0], "10.0.0.12:8081": nodes[1], "10.0.0.11:8080": nodes[0], "10.0.0.12:8080": nodes[1],
	})

	// await calls until twenty answers in turn come from the expected nodes.
	await := func(state string, want ...string) {
		t.Helper()
		right := 0
		testkit.AwaitState(t, state, func() (string, bool) {
			response, node := exchange(t, client, http.MethodGet, fmt.Sprintf("https://stats.example.com/svc.js?%d", right), "", nil)
			if right++; response.StatusCode != http.StatusOK || !slices.Contains(want, node) {
				right = 0
			}
			return fmt.Sprintf("%s from %q, want 200 from %v", response.Status, node, want), right == 20
		})
	}

	ready[1].Store(true)
	await("the second node is ready", "1")
	ready[1].Store(false)
	await("no node is ready", "0", "1")
	ready[0].Store(true)
	await("the first node is ready", "0")
}

// TestProxyHashesBySite: behind the shipped examples all calls of a site reach one node, sites are
// spread over the nodes, and the nodes get the host and the visitor's address, not what a visitor
// claims. Calls without a site are spread, and the control plane's go to its own nodes.
func TestProxyHashesBySite(t *testing.T) {
	t.Parallel()

	for name, balancer := range loadBalancers {
		t.Run(name, func(t *testing.T) {
			t.Parallel()

			var requests sync.Map
			client, _ := balancer.run(t, map[string]string{
				"10.0.0.11:8081": recorder(t, "data1", &requests), "10.0.0.12:8081": recorder(t, "data2", &requests),
				"10.0.0.11:8080": recorder(t, "control1", &requests), "10.0.0.12:8080": recorder(t, "control2", &requests),
			})

			calls := 0
			call := func(host, path string, header map[string]string) seen {
				t.Helper()
				calls++
				id := fmt.Sprint(calls)
				sends := map[string]string{"X-Id": id, "X-Forwarded-For": "203.0.113.9"}
				maps.Copy(sends, header)
				response, _ := exchange(t, client, http.MethodPost, "https://"+host+path, "{}", sends)

				found, ok := requests.Load(id)
				if !ok || response.StatusCode != http.StatusNoContent {
					t.Fatalf("%s%s: %s, and it reached a node: %t", host, path, response.Status, ok)
				}

				got := found.(seen)
				if got.host != host || got.address != "127.0.0.1" {
					t.Fatalf("the node got the host %q and the address %q", got.host, got.address)
				}
				return got
			}

			sites := map[string]int{}
			for i := range 40 {
				origin := map[string]string{"Origin": fmt.Sprintf("https://shop%d.example", i)}
				server := map[string]string{"Authorization": fmt.Sprintf("Bearer svcs_%d", i)}
				for path, header := range map[string]map[string]string{"/collect.php": origin, "/server.php": server} {
					first := call("stats.example.com", path, header)
					sites[first.node]++
					for range 3 {
						if again := call("stats.example.com", path, header); again.node != first.node {
							t.Fatalf("%s of site %d reaches %s and %s", path, i, first.node, again.node)
						}
					}
				}
			}

			if sites["data1"] < 15 || sites["data2"] < 15 || len(sites) != 2 {
				t.Errorf("the nodes of 80 sites: %v", sites)
			}

			nodes := map[string]int{}
			for range 40 {
				nodes[call("stats.example.com", "/siteverify", nil).node]++
			}
			if nodes["data1"] < 5 || nodes["data2"] < 5 || len(nodes) != 2 {
				t.Errorf("the nodes of 40 calls without a site: %v", nodes)
			}

			own := map[string]string{"Origin": "https://app.example.com"}
			if got := call("app.example.com", "/graphql", own); !strings.HasPrefix(got.node, "control") {
				t.Errorf("the control plane's call reaches %s", got.node)
			}
		})
	}
}

// TestProxyLeavesOutADeadNode: behind the shipped examples, each call gets an answer although a
// node has just ended without notice, also the calls of its sites and before the next check.
func TestProxyLeavesOutADeadNode(t *testing.T) {
	t.Parallel()

	for name, balancer := range loadBalancers {
		for dead := range 2 {
			t.Run(fmt.Sprintf("%s, node %d", name, dead+1), func(t *testing.T) {
				t.Parallel()

				var nodes [2]*httptest.Server
				var calls [2]atomic.Int64
				addresses := make(map[string]string)
				for i := range nodes {
					nodes[i] = httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
						if r.Method == http.MethodPost {
							calls[i].Add(1)
							time.Sleep(20 * time.Millisecond) // so that calls meet, and HAProxy balances them
						}
					}))
					t.Cleanup(nodes[i].Close)
					for _, port := range []string{"8080", "8081"} {
						addresses[fmt.Sprintf("10.0.0.1%d:%s", i+1, port)] = nodes[i].Listener.Addr().String()
					}
				}
				client, _ := balancer.run(t, addresses)

				callEachSite(t, client)
				if a, b := calls[0].Load(), calls[1].Load(); a == 0 || b == 0 {
					t.Fatalf("the nodes got %d and %d calls, want some each", a, b)
				}
				nodes[dead].Close()
				callEachSite(t, client)
				if a, b := calls[0].Load(), calls[1].Load(); a+b != 2*severalSites {
					t.Errorf("the nodes got %d and %d calls, want %d in all", a, b, 2*severalSites)
				}
			})
		}
	}
}

// severalSites is how many sites are enough for each of two nodes to get some.
const severalSites = 40

// callEachSite sends a call of each of several sites, all at once.
func callEachSite(t *testing.T, client *http.Client) {
	t.Helper()
	var group sync.WaitGroup
	for i := range severalSites {
		request, err := http.NewRequest(http.MethodPost, "https://stats.example.com/collect.php", strings.NewReader("{}"))
		testkit.NoError(t, err)
		request.Header.Set("Origin", fmt.Sprintf("https://shop%d.example", i))

		group.Go(func() {
			response, err := client.Do(request)
			if err != nil {
				t.Error(err)
				return
			}
			response.Body.Close()
			testkit.Equal(t, response.StatusCode, http.StatusOK, "call of site %d: %s", i, response.Status)
		})
	}
	group.Wait()
}

// TestProxyRestartsLoseNothing: behind the shipped examples, both nodes are restarted one after the
// other while hits arrive, with the drain delay that they ask for. Each hit is accepted and stored
// once. HAProxy checks its nodes. nginx does not: it sends calls until a node refuses connections.
func TestProxyRestartsLoseNothing(t *testing.T) {
	t.Parallel()
	testkit.SkipLong(t, "faults of processes")

	for name, test := range map[string]struct {
		browsers int
		await    func(t *testing.T, dir string) // waits until the first node has returned
	}{
		"haproxy": {browsers: 4, await: awaitHAProxyServer},
		"nginx":   {browsers: 8, await: func(*testing.T, string) {}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()

			settings := settingsFor(t, dbtest.PostgresURL(t))
			settings["TALLYGATE_TRUSTED_PROXIES"] = "127.0.0.1"
			settings["TALLYGATE_DRAIN_DELAY"] = "3s"
			settings["TALLYGATE_ROLES"] = "control,data"
			roles := []string{"control", "data"}
			nodes := []*process{start(t, settings, roles), start(t, settings, roles)}
			owner := newOwner(t, nodes[0])
			site := owner.signUp("crash.localhost")

			client, dir := loadBalancers[name].run(t, map[string]string{
				"10.0.0.11:8081": nodes[0].addr["data"], "10.0.0.12:8081": nodes[1].addr["data"],
				"10.0.0.11:8080": nodes[0].addr["control"], "10.0.0.12:8080": nodes[1].addr["control"],
			})

			var sent, accepted atomic.Int64
			end := browse(t, client, site.SiteKey, test.browsers, &sent, &accepted)
			awaitHits(t, &accepted, 20)

			all := slices.Clone(nodes)
			for i, node := range nodes {
				own := maps.Clone(settings)
				own["TALLYGATE_DATA_ADDR"], own["TALLYGATE_CONTROL_ADDR"] = node.addr["data"], node.addr["control"]

				node.signal(syscall.SIGTERM)
				nodes[i] = start(t, own, roles)
				all = append(all, nodes[i])
				if i == 0 {
					test.await(t, dir)
				}
			}
			awaitHits(t, &accepted, accepted.Load()+100)

			end()

			if accepted.Load() != sent.Load() {
				t.Errorf("%d of %d hits were accepted", accepted.Load(), sent.Load())
			}
			if rows := len(owner.export(site.ID)); int64(rows) != accepted.Load() || owner.used(site.ID) != rows {
				t.Errorf("%d rows are stored and %d counted, want %d", rows, owner.used(site.ID), accepted.Load())
			}
			if t.Failed() {
				for i, node := range all {
					t.Logf("log of node %d:\n%s", i+1, node.logged())
				}
			}
		})
	}
}

// browse sends hits from browsers on different subdomains, and so to both nodes, until end is
// called.
func browse(t *testing.T, client *http.Client, siteKey string, browsers int, sent, accepted *atomic.Int64) (end func()) {
	t.Helper()

	var group sync.WaitGroup
	stop := make(chan struct{})
	for browser := range browsers {
		origin := fmt.Sprintf("https://browser%d.crash.localhost", browser)
		group.Go(func() {
			for {
				select {
				case <-stop:
					return
				case <-time.After(2 * time.Millisecond):
				}

				n := sent.Add(1)
				status, err := sendPageviewFrom(client, origin, "https://stats.example.com", siteKey, fmt.Sprintf("/page/%d", n))
				if err != nil || status != http.StatusNoContent {
					t.Errorf("hit %d: status %d, %v", n, status, err)
					continue
				}
				accepted.Add(1)
			}
		})
	}

	end = sync.OnceFunc(func() {
		close(stop)
		group.Wait()
	})
	t.Cleanup(end)
	return end
}

// awaitHits waits until so many hits were accepted.
func awaitHits(t *testing.T, accepted *atomic.Int64, want int64) {
	t.Helper()
	testkit.AwaitState(t, fmt.Sprint(want, " accepted hits"), func() (string, bool) {
		n := accepted.Load()
		return fmt.Sprint(n), n >= want
	})
}
