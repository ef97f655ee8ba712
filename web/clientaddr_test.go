package web_test

import (
	"bytes"
	"log/slog"
	"net/http"
	"net/netip"
	"strings"
	"testing"
	"time"

	"github.com/tallygate/tallygate/tools/testkit"
	"github.com/tallygate/tallygate/web"
)

func TestClientAddr(t *testing.T) {
	clients := web.NewClients([]netip.Prefix{netip.MustParsePrefix("10.0.0.0/8"), netip.MustParsePrefix("fd00::/8")},
		slog.New(slog.DiscardHandler), time.Now)
	for _, test := range []struct {
		name      string
		peer      string
		forwarded []string
		want      string
	}{
		{"no proxy", "203.0.113.1:5000", nil, "203.0.113.1"},
		{"a header from an untrusted peer", "203.0.113.1:5000", []string{"198.51.100.9"}, "203.0.113.1"},
		{"one proxy", "10.0.0.1:5000", []string{"198.51.100.9"}, "198.51.100.9"},
		{"two proxies", "10.0.0.1:5000", []string{"198.51.100.9, 10.0.0.2"}, "198.51.100.9"},
		{"a client that forges a hop", "10.0.0.1:5000", []string{"192.0.2.66, 198.51.100.9"}, "198.51.100.9"},
		{"a client that forges a trusted hop", "10.0.0.1:5000", []string{"10.9.9.9, 198.51.100.9"}, "198.51.100.9"},
		{"the last of several headers", "10.0.0.1:5000", []string{"192.0.2.66", "198.51.100.9"}, "198.51.100.9"},
		{"several headers, the last one trusted", "10.0.0.1:5000", []string{"198.51.100.9", "10.0.0.3"}, "198.51.100.9"},
		{"only proxies", "10.0.0.1:5000", []string{"10.0.0.2, 10.0.0.3"}, "10.0.0.2"},
		{"no header from a proxy", "10.0.0.1:5000", nil, "10.0.0.1"},
		{"a broken entry", "10.0.0.1:5000", []string{"198.51.100.9, unknown"}, "10.0.0.1"},
		{"an empty entry", "10.0.0.1:5000", []string{"198.51.100.9,"}, "10.0.0.1"},
		{"a port", "10.0.0.1:5000", []string{"198.51.100.9:1234"}, "198.51.100.9"},
		{"IPv6", "[fd00::1]:5000", []string{"2001:db8::7"}, "2001:db8::7"},
		{"IPv6 in brackets with a port", "[fd00::1]:5000", []string{"[2001:db8::7]:443"}, "2001:db8::7"},
		{"IPv4 in IPv6", "[::ffff:10.0.0.1]:5000", []string{"::ffff:198.51.100.9"}, "198.51.100.9"},
		{"a zone", "[fe80::1%eth0]:5000", nil, "fe80::1"},
		{"no peer", "@", nil, "invalid IP"},
	} {
		t.Run(test.name, func(t *testing.T) {
			r := &http.Request{RemoteAddr: test.peer, Header: http.Header{"X-Forwarded-For": test.forwarded}}
			testkit.Equal(t, clients.Addr(r).String(), test.want, "peer %s, X-Forwarded-For %q", test.peer, test.forwarded)
		})
	}
}

// The reasons why many clients share an address.
const (
	no           = ""
	unknownProxy = "unknown proxy"
	hidden       = "hidden clients"
)

// TestShared checks that an address counts as shared if it is loopback or private and forwards
// other addresses, at any hop, or if it lies in a trusted network and was forwarded itself. Each
// reason has its own warning.
func TestShared(t *testing.T) {
	networks := []netip.Prefix{netip.MustParsePrefix("10.0.0.0/8"), netip.MustParsePrefix("198.51.100.0/24")}
	for _, test := range []struct {
		name   string
		peer   string
		header http.Header
		want   string
	}{
		{"a client", "203.0.113.1:5000", nil, no},
		{"a client that claims to forward", "203.0.113.1:5000", http.Header{"X-Forwarded-For": {"192.0.2.1"}}, no},
		{"a local client", "127.0.0.1:5000", nil, no},
		{"a local client with an empty header", "127.0.0.1:5000", http.Header{"X-Forwarded-For": {""}}, no},
		{"a local proxy", "127.0.0.1:5000", http.Header{"X-Forwarded-For": {"192.0.2.1"}}, unknownProxy},
		{"a local proxy, IPv6", "[::1]:5000", http.Header{"X-Forwarded-For": {"192.0.2.1"}}, unknownProxy},
		{"a local proxy with X-Real-IP", "127.0.0.1:5000", http.Header{"X-Real-Ip": {"192.0.2.1"}}, unknownProxy},
		{"a local proxy with Forwarded", "127.0.0.1:5000", http.Header{"Forwarded": {"for=192.0.2.1"}}, unknownProxy},
		{"a private proxy", "192.168.1.1:5000", http.Header{"X-Forwarded-For": {"192.0.2.1"}}, unknownProxy},
		{"a private proxy, IPv4 in IPv6", "[::ffff:192.168.1.1]:5000", http.Header{"X-Forwarded-For": {"192.0.2.1"}}, unknownProxy},
		{"a private proxy, IPv6", "[fd00::1]:5000", http.Header{"X-Forwarded-For": {"192.0.2.1"}}, unknownProxy},
		{"a trusted proxy", "10.0.0.1:5000", http.Header{"X-Forwarded-For": {"192.0.2.1"}}, no},
		{"a trusted proxy that names a private client", "10.0.0.1:5000", http.Header{"X-Forwarded-For": {"192.168.1.9"}}, no},
		{"a private proxy behind a trusted one", "10.0.0.1:5000", http.Header{"X-Forwarded-For": {"192.0.2.1, 192.168.1.1"}}, unknownProxy},
		{"likewise, in two headers", "10.0.0.1:5000", http.Header{"X-Forwarded-For": {"192.0.2.1", "192.168.1.1"}}, unknownProxy},
		{"a client behind a trusted proxy that forges a hop", "10.0.0.1:5000", http.Header{"X-Forwarded-For": {"192.168.1.1, 203.0.113.1"}}, no},
		{"a trusted proxy without a header", "10.0.0.1:5000", nil, no},
		{"a trusted proxy with another header", "10.0.0.1:5000", http.Header{"X-Real-Ip": {"192.0.2.1"}}, unknownProxy},
		{"a trusted proxy that hides its clients", "10.0.0.1:5000", http.Header{"X-Forwarded-For": {"unknown"}}, hidden},
		{"a trusted public proxy that hides its clients", "198.51.100.1:5000", http.Header{"X-Forwarded-For": {"unknown"}}, hidden},
		{"a trusted proxy with an empty header", "10.0.0.1:5000", http.Header{"X-Forwarded-For": {""}}, hidden},
		{"a trusted proxy behind a hop that hides its client", "10.0.0.1:5000", http.Header{"X-Forwarded-For": {"unknown, 10.0.0.2"}}, hidden},
		{"source NAT in front of a trusted proxy", "10.0.0.1:5000", http.Header{"X-Forwarded-For": {"10.0.0.5"}}, hidden},
		{"a client in a trusted network", "10.0.0.1:5000", http.Header{"X-Forwarded-For": {"10.200.0.7"}}, hidden},
		{"the proxy itself", "10.0.0.1:5000", http.Header{"X-Forwarded-For": {"10.0.0.1"}}, hidden},
		{"a trusted public proxy behind source NAT", "198.51.100.1:5000", http.Header{"X-Forwarded-For": {"198.51.100.9"}}, hidden},
		{"source NAT, IPv4 in IPv6 and a port", "[::ffff:10.0.0.1]:5000", http.Header{"X-Forwarded-For": {"[::ffff:10.0.0.5]:80"}}, hidden},
		{"only proxies", "10.0.0.1:5000", http.Header{"X-Forwarded-For": {"10.0.0.2, 10.0.0.3"}}, hidden},
		{"only proxies, in two headers", "10.0.0.1:5000", http.Header{"X-Forwarded-For": {"10.0.0.2", "10.0.0.3"}}, hidden},
		{"a client that claims a trusted address", "10.0.0.1:5000", http.Header{"X-Forwarded-For": {"10.0.0.5, 203.0.113.1"}}, no},
		{"likewise, in two headers", "10.0.0.1:5000", http.Header{"X-Forwarded-For": {"10.0.0.5", "203.0.113.1"}}, no},
		{"an untrusted peer that claims a trusted address", "203.0.113.1:5000", http.Header{"X-Forwarded-For": {"10.0.0.5"}}, no},
		{"no peer", "@", http.Header{"X-Forwarded-For": {"192.0.2.1"}}, no},
	} {
		t.Run(test.name, func(t *testing.T) {
			clients := web.NewClients(networks, slog.New(slog.DiscardHandler), time.Now)
			r := &http.Request{RemoteAddr: test.peer, Header: test.header}
			if got := clients.Shared(r); got != (test.want != no) {
				t.Errorf("shared %v, want %q", got, test.want)
			}
			if clients.Addr(r); (clients.Warning() != "") != (test.want == unknownProxy) || (clients.HiddenWarning() != "") != (test.want == hidden) {
				t.Errorf("warnings %q and %q, want %q", clients.Warning(), clients.HiddenWarning(), test.want)
			}
		})
	}
}

// TestProxyWarnings checks that each warning is logged once an hour, and repeated for an hour after
// the last shared address. A clock that is set back suppresses nothing, and neither warning the
// other.
func TestProxyWarnings(t *testing.T) {
	noon := time.Date(2026, 11, 20, 12, 0, 0, 0, time.UTC)
	now := noon
	var log bytes.Buffer
	clients := web.NewClients([]netip.Prefix{netip.MustParsePrefix("10.0.0.0/24")}, slog.New(slog.NewTextHandler(&log, nil)),
		func() time.Time { return now })

	for _, test := range []struct {
		name, peer, forwarded string
		warning, other        func() string
	}{
		{unknownProxy, "127.0.0.1:5000", "192.0.2.1", clients.Warning, clients.HiddenWarning},
		{hidden, "10.0.0.1:5000", "10.0.0.99", clients.HiddenWarning, clients.Warning},
	} {
		t.Run(test.name, func(t *testing.T) {
			log.Reset()
			now = noon
			shared := &http.Request{RemoteAddr: test.peer, Header: http.Header{"X-Forwarded-For": {test.forwarded}}}
			probe := &http.Request{
				RemoteAddr: test.peer,
				Header:     http.Header{"X-Forwarded-For": {test.forwarded}, web.ProbeHeader: {"0123456789abcdef-1"}},
			}
			clients.Addr(probe)
			if text := test.warning(); text != "" || log.Len() > 0 {
				t.Errorf("after nothing but a probe of the doctor: %q, log %q", text, &log)
			}

			lines := 0
			for _, step := range []struct {
				to    time.Duration
				lines int
			}{
				{0, 1}, {time.Minute, 1}, {59 * time.Minute, 1}, {time.Hour, 2}, {119 * time.Minute, 2},
				{48 * time.Hour, 3}, {0, 4}, {time.Minute, 4},
			} {
				now = noon.Add(step.to)
				clients.Addr(shared)

				if lines = strings.Count(log.String(), "level=WARN"); lines != step.lines || test.warning() == "" {
					t.Errorf("at %v: %d lines, want %d; warning %q", step.to, lines, step.lines, test.warning())
				}
			}

			now = now.Add(time.Hour)

			if test.warning() != "" || test.other() != "" {
				t.Errorf("an hour after the last one: %q and %q", test.warning(), test.other())
			}
			if strings.Contains(log.String(), test.forwarded) || strings.Count(log.String(), "setting=TALLYGATE_TRUSTED_PROXIES") != lines {
				t.Errorf("want lines with the setting's name and no address:\n%s", &log)
			}
		})
	}
}

// FuzzClientAddr checks that a client cannot forge its address with a header of its own, and cannot
// escape the limits with an address that counts as shared: only the hop that the trusted proxy adds
// counts.
func FuzzClientAddr(f *testing.F) {
	clients := web.NewClients([]netip.Prefix{netip.MustParsePrefix("10.0.0.0/8")}, slog.New(slog.DiscardHandler), time.Now)

	for _, forged := range []string{"", "1.2.3.4", "10.0.0.1", ",", "[::1]:80, x", "1.2.3.4, 10.0.0.1,"} {
		f.Add(forged)
	}

	f.Fuzz(func(t *testing.T, forged string) {
		r := &http.Request{RemoteAddr: "10.0.0.1:5000", Header: http.Header{"X-Forwarded-For": {forged + ", 198.51.100.9, 10.0.0.2"}}}
		if got := clients.Addr(r).String(); got != "198.51.100.9" || clients.Shared(r) {
			t.Errorf("X-Forwarded-For %q: %s, shared %v; want the hop that the trusted proxy saw", r.Header["X-Forwarded-For"], got, clients.Shared(r))
		}
	})
}
