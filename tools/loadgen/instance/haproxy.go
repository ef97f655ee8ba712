package instance

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"

	"github.com/tallygate/tallygate/tools/pgserver"
)

// The backends of the load balancer.
const (
	BackendOne  = "one"  // the first node
	BackendEven = "even" // all nodes in turn
	BackendSite = "site" // all nodes, each site on a node of its own; see docs/operator/proxies/haproxy.cfg
)

// HAProxy is a private load balancer.
type HAProxy struct {
	daemon
	Addresses map[string]string // host:port by backend
}

// configHead and configSite are docs/operator/proxies/haproxy.cfg without TLS and names. The load program
// names the visitors in X-Forwarded-For, which is passed on.
const configHead = `global
	maxconn 4000
defaults
	mode http
	timeout connect 2s
	timeout client 1m
	timeout server 1m
	timeout http-request 10s
	option http-buffer-request
	retries 2
	retry-on conn-failure
	option redispatch 1
	timeout check 5s
	option httpchk GET /readyz
	default-server check inter 1s fall 1 rise 2
`

const configSite = `	http-request set-var(txn.site) req.hdr(Origin)
	http-request set-var(txn.site) req.hdr(Authorization) if { path /server.php }
	balance hash var(txn.site)
	hash-type consistent
	hash-balance-factor 150
	default-server observe layer4 error-limit 1 on-error mark-down
`

// startHAProxy starts HAProxy in front of data nodes and waits until it accepts connections. Its
// configuration is written to dir.
func startHAProxy(ctx context.Context, dir string, nodes []*Server) (*HAProxy, error) {
	program, err := exec.LookPath("haproxy")
	if err != nil {
		return nil, fmt.Errorf("haproxy is not installed: %w", err)
	}

	p := &HAProxy{Addresses: make(map[string]string)}
	config := configHead
	for _, backend := range []struct {
		name, balance string
		nodes         []*Server
	}{
		{BackendOne, "", nodes[:1]}, {BackendEven, "\tbalance roundrobin\n", nodes}, {BackendSite, configSite, nodes},
	} {
		address, err := pgserver.FreeAddress()
		if err != nil {
			return nil, err
		}
		p.Addresses[backend.name] = address
		config += fmt.Sprintf("listen %s\n\tbind %s\n%s", backend.name, address, backend.balance)
		for i, node := range backend.nodes {
			config += fmt.Sprintf("\tserver data%d %s\n", i+1, node.Data)
		}
	}

	file := filepath.Join(dir, "haproxy.cfg")
	if err := os.WriteFile(file, []byte(config), 0o600); err != nil {
		return nil, err
	}
	if err := p.start(exec.Command(program, "-db", "-f", file)); err != nil {
		return nil, err
	}
	for _, address := range p.Addresses {
		if err := p.await(ctx, func() bool { return listens(address) }); err != nil {
			p.Kill()
			return nil, err
		}
	}
	return p, nil
}
