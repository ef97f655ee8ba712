package web_test

import (
	"bytes"
	"log/slog"
	"net/http"
	"net/netip"
	"strings"
	"testing"
	"time"

	"github.com/tallygate/tallygate/web"
)

func TestClientAddr(t *testing.T) {
	clientAddr := web.ClientAddr([]netip.Prefix{netip.MustParsePrefix("10.0.0.0/8"), netip.MustParsePrefix("fd00::/8")})
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
			if got := clientAddr(r).String(); got != test.want {
				t.Errorf("peer %s, X-Forwarded-For %q: %s, want %s", test.peer, test.forwarded, got, test.want)
			}
		})
	}
}

// TestShared checks that an address counts as shared if it is loopback or private and forwards
// other addresses, at any hop.
func TestShared(t *testing.T) {
	networks := []netip.Prefix{netip.MustParsePrefix("10.0.0.0/8"), netip.MustParsePrefix("198.51.100.0/24")}
	for _, test := range []struct {
		name   string
		peer   string
		header http.Header
		want   bool
	}{
		{"a client", "203.0.113.1:5000", nil, false},
		{"a client that claims to forward", "203.0.113.1:5000", http.Header{"X-Forwarded-For": {"192.0.2.1"}}, false},
		{"a local client", "127.0.0.1:5000", nil, false},
		{"a local client with an empty header", "127.0.0.1:5000", http.Header{"X-Forwarded-For": {""}}, false},
		{"a local proxy", "127.0.0.1:5000", http.Header{"X-Forwarded-For": {"192.0.2.1"}}, true},
		{"a local proxy, IPv6", "[::1]:5000", http.Header{"X-Forwarded-For": {"192.0.2.1"}}, true},
		{"a local proxy with X-Real-IP", "127.0.0.1:5000", http.Header{"X-Real-Ip": {"192.0.2.1"}}, true},
		{"a local proxy with Forwarded", "127.0.0.1:5000", http.Header{"Forwarded": {"for=192.0.2.1"}}, true},
		{"a private proxy", "192.168.1.1:5000", http.Header{"X-Forwarded-For": {"192.0.2.1"}}, true},
		{"a private proxy, IPv4 in IPv6", "[::ffff:192.168.1.1]:5000", http.Header{"X-Forwarded-For": {"192.0.2.1"}}, true},
		{"a private proxy, IPv6", "[fd00::1]:5000", http.Header{"X-Forwarded-For": {"192.0.2.1"}}, true},
		{"a trusted proxy", "10.0.0.1:5000", http.Header{"X-Forwarded-For": {"192.0.2.1"}}, false},
		{"a trusted proxy that names a private client", "10.0.0.1:5000", http.Header{"X-Forwarded-For": {"192.168.1.9"}}, false},
		{"a private proxy behind a trusted one", "10.0.0.1:5000", http.Header{"X-Forwarded-For": {"192.0.2.1, 192.168.1.1"}}, true},
		{"likewise, in two headers", "10.0.0.1:5000", http.Header{"X-Forwarded-For": {"192.0.2.1", "192.168.1.1"}}, true},
		{"a client behind a trusted proxy that forges a hop", "10.0.0.1:5000", http.Header{"X-Forwarded-For": {"192.168.1.1, 203.0.113.1"}}, false},
		{"a trusted proxy without a header", "10.0.0.1:5000", nil, false},
		{"a trusted proxy with another header", "10.0.0.1:5000", http.Header{"X-Real-Ip": {"192.0.2.1"}}, true},
		{"a trusted proxy that hides its clients", "10.0.0.1:5000", http.Header{"X-Forwarded-For": {"unknown"}}, true},
		{"a trusted public proxy that hides its clients", "198.51.100.1:5000", http.Header{"X-Forwarded-For": {"unknown"}}, false},
		{"only proxies", "10.0.0.1:5000", http.Header{"X-Forwarded-For": {"10.0.0.2, 10.0.0.3"}}, false},
		{"no peer", "@", http.Header{"X-Forwarded-For": {"192.0.2.1"}}, false},
	} {
		t.Run(test.name, func(t *testing.T) {
			clients := web.NewClients(networks, slog.New(slog.DiscardHandler), time.Now)
			r := &http.Request{RemoteAddr: test.peer, Header: test.header}
			if got := clients.Shared(r); got != test.want {
				t.Errorf("shared %v, want %v", got, test.want)
			}
			if clients.Addr(r); (clients.Warning() != "") != test.want {
				t.Errorf("warning %q, want one: %v", clients.Warning(), test.want)
			}
		})
	}
}

// TestProxyWarning checks that the warning is logged once an hour, and that Warning repeats it for
// an hour after the last shared address. A clock that is set back suppresses nothing.
func TestProxyWarning(t *testing.T) {
	noon := time.Date(2026, 11, 20, 12, 0, 0, 0, time.UTC)
	now := noon
	var log bytes.Buffer
	clients := web.NewClients(nil, slog.New(slog.NewTextHandler(&log, nil)), func() time.Time { return now })
	shared := &http.Request{RemoteAddr: "127.0.0.1:5000", Header: http.Header{"X-Forwarded-For": {"192.0.2.1"}}}

	if text := clients.Warning(); text != "" {
		t.Errorf("before any request: %q", text)
	}

	lines := 0
	for _, step := range []struct {
		to    time.Duration
		lines int
	}{{0, 1}, {time.Minute, 1}, {59 * time.Minute, 1}, {time.Hour, 2}, {119 * time.Minute, 2}, {48 * time.Hour, 3}, {0, 4}, {time.Minute, 4}} {
		now = noon.Add(step.to)
		clients.Addr(shared)

		if lines = strings.Count(log.String(), "level=WARN"); lines != step.lines || clients.Warning() == "" {
			t.Errorf("at %v: %d lines, want %d; warning %q", step.to, lines, step.lines, clients.Warning())
		}
	}

	now = now.Add(time.Hour)

	if text := clients.Warning(); text != "" {
		t.Errorf("an hour after the last one: %q", text)
	}
	if strings.Contains(log.String(), "192.0.2.1") || strings.Count(log.String(), "setting=TALLYGATE_TRUSTED_PROXIES") != lines {
		t.Errorf("want lines with the setting's name and no address:\n%s", &log)
	}
}

// FuzzClientAddr checks that a client cannot forge its address with a header of its own: only the
// hop that the trusted proxy adds counts.
func FuzzClientAddr(f *testing.F) {
	clientAddr := web.ClientAddr([]netip.Prefix{netip.MustParsePrefix("10.0.0.0/8")})

	for _, forged := range []string{"", "1.2.3.4", "10.0.0.1", ",", "[::1]:80, x", "1.2.3.4, 10.0.0.1,"} {
		f.Add(forged)
	}

	f.Fuzz(func(t *testing.T, forged string) {
		r := &http.Request{RemoteAddr: "10.0.0.1:5000", Header: http.Header{"X-Forwarded-For": {forged + ", 198.51.100.9, 10.0.0.2"}}}
		if got := clientAddr(r).String(); got != "198.51.100.9" {
			t.Errorf("X-Forwarded-For %q: %s, want the hop that the trusted proxy saw", r.Header["X-Forwarded-For"], got)
		}
	})
}
