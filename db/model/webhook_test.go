package model_test

import (
	"net/netip"
	"strings"
	"testing"
	"time"

	"github.com/tallygate/tallygate/db/model"
	"github.com/tallygate/tallygate/tools/testkit"
)

// addresses are addresses of every family that outgoing calls must distinguish, with whether a
// webhook can call them.
var addresses = []struct {
	addr string
	may  bool
}{
	{"93.184.216.34", true}, {"8.8.8.8", true}, {"100.63.255.255", true}, {"100.128.0.0", true}, {"172.15.0.1", true}, {"172.32.0.1", true},
	{"192.0.1.1", true}, {"198.17.0.1", true}, {"198.20.0.1", true}, {"223.255.255.255", true}, {"168.63.129.15", true},
	{"2606:4700:4700::1111", true}, {"2a00:1450:4001:80b::200e", true}, {"2001:200::1", true}, {"2001:4860:4860::8888", true},

	{"0.0.0.0", false}, {"0.1.2.3", false}, {"10.0.0.1", false}, {"10.255.255.255", false}, {"100.64.0.1", false}, {"100.100.100.200", false},
	{"100.127.255.255", false}, {"127.0.0.1", false}, {"127.255.255.255", false}, {"168.63.129.16", false}, {"169.254.169.254", false},
	{"172.16.0.1", false}, {"172.31.255.255", false}, {"192.0.0.192", false}, {"192.0.2.1", false}, {"192.88.99.1", false},
	{"192.168.0.1", false}, {"198.18.0.1", false}, {"198.19.255.255", false}, {"198.51.100.1", false}, {"203.0.113.1", false},
	{"224.0.0.1", false}, {"239.255.255.255", false}, {"240.0.0.1", false}, {"255.255.255.255", false},

	{"::", false}, {"::1", false}, {"::127.0.0.1", false}, {"::8.8.8.8", false}, {"::ffff:127.0.0.1", false}, {"::ffff:169.254.169.254", false},
	{"::ffff:0:8.8.8.8", false}, {"64:ff9b::a9fe:a9fe", false}, {"64:ff9b::808:808", false}, {"64:ff9b:1::1", false}, {"100::1", false},
	{"2001::1", false}, {"2001:0:7f00:1::1", false}, {"2001:2::1", false}, {"2001:10::1", false}, {"2001:20::1", false}, {"2001:db8::1", false},
	{"2002:a9fe:a9fe::1", false}, {"2002:808:808::1", false}, {"2620:4f:8000::1", false}, {"3fff::1", false}, {"4000::1", false},
	{"5f00::1", false}, {"fc00::1", false}, {"fd00:ec2::254", false}, {"fe80::1", false}, {"fe80::1%eth0", false}, {"2606:4700::1%eth0", false},
	{"fec0::1", false}, {"ff02::1", false}, {"ff0e::1", false},
}

func TestMayCall(t *testing.T) {
	for _, test := range addresses {
		addr := netip.MustParseAddr(test.addr)
		for _, port := range []uint16{443, 8443} {
			testkit.Equal(t, model.MayCall(netip.AddrPortFrom(addr, port), nil), test.may, "MayCall(%s, %d)", addr, port)
		}

		for _, port := range []uint16{0, 22, 80, 444, 6379} {
			if model.MayCall(netip.AddrPortFrom(addr, port), nil) {
				t.Errorf("MayCall(%s, %d) = true", addr, port)
			}
		}

		url := "https://" + addr.String() + "/hook"

		if addr.Is6() {
			url = "https://[" + strings.Replace(addr.String(), "%", "%25", 1) + "]/hook"
		}
		if err := model.CheckWebhookURL("url", url, nil); (err == nil) != test.may {
			t.Errorf("CheckWebhookURL(%s): %v, want allowed: %v", url, err, test.may)
		}
	}

	if model.MayCall(netip.AddrPort{}, nil) {
		t.Error("no address may be called")
	}
}

// TestMayCallAllowedNetworks checks that an allowed network permits its own addresses, on any port
// and in either form, and no others.
func TestMayCallAllowedNetworks(t *testing.T) {
	allowed := []netip.Prefix{netip.MustParsePrefix("10.1.0.0/16"), netip.MustParsePrefix("fd00::/64")}
	for to, want := range map[string]bool{
		"10.1.2.3:9000": true, "[::ffff:10.1.2.3]:9000": true, "10.2.0.1:443": false, "[fd00::1]:80": true, "[fd00:0:0:1::1]:443": false,
		"8.8.8.8:443": true, "8.8.8.8:9000": false,
	} {
		testkit.Equal(t, model.MayCall(netip.MustParseAddrPort(to), allowed), want, "MayCall(%s)", to)
	}
}

func TestCheckWebhookURL(t *testing.T) {
	local := []netip.Prefix{netip.MustParsePrefix("127.0.0.0/8")}
	for _, test := range []struct {
		url     string
		allowed []netip.Prefix
		ok      bool
	}{
		{"https://example.com", nil, true},
		{"https://example.com/hook?a=1#part", nil, true},
		{"https://EXAMPLE.com./hook", nil, true},
		{"https://bücher.example/", nil, true},
		{"https://example.com:443/", nil, true},
		{"https://example.com:8443/", nil, true},
		{"https://example.com:444/", nil, false},
		{"https://example.com:0/", nil, false},
		{"https://example.com:/", nil, false},
		{"https://example.com:65536/", nil, false},
		{"http://example.com/", nil, false},
		{"ftp://example.com/", nil, false},
		{"https:///hook", nil, false},
		{"https:example.com", nil, false},
		{"example.com", nil, false},
		{"https://user@example.com/", nil, false},
		{"https://user:secret@example.com/", nil, false},
		{"https://example.com/\x00", nil, false},
		{"https://exa mple.com/", nil, false},
		{"https://localhost/", nil, false},
		{"https://hook.localhost/", nil, false},
		{"https://intranet/", nil, false},
		{"https://127.1/", nil, false},
		{"https://2130706433/", nil, false},
		{"https://0x7f000001/", nil, false},
		{"https://0177.0.0.1/", nil, false},
		{"https://127.0.0.1./", nil, false},
		{"https://[::ffff:127.0.0.1]/", nil, false},
		{"https://１２７.0.0.1/", nil, false},
		{"https://example.com/" + strings.Repeat("a", model.MaxURLLength), nil, false},
		{"https://localhost:9443/", local, true},
		{"https://receiver:9443/", local, true},
		{"https://127.0.0.1:9443/", local, true},
		{"https://10.0.0.1/", local, false},
		{"https://2130706433/", local, false},
		{"http://localhost:9443/", local, false},
	} {
		if err := model.CheckWebhookURL("url", test.url, test.allowed); (err == nil) != test.ok {
			t.Errorf("CheckWebhookURL(%q, %v): %v, want ok %v", test.url, test.allowed, err, test.ok)
		}
	}
}

// TestRetryDelays checks that each pause is within a tenth of its step, is the same for the same
// delivery, and differs between deliveries.
func TestRetryDelays(t *testing.T) {
	for i, step := range []time.Duration{5 * time.Second, 5 * time.Minute, time.Hour, 10 * time.Hour} {
		attempts := int32(i + 1)
		least, most := time.Duration(1<<62), time.Duration(0)
		for id := range int64(1000) {
			delay := model.RetryDelay(id<<12, attempts)
			testkit.Require(t, model.RetryDelay(id<<12, attempts), delay, "RetryDelay(%d, %d) is %v, then", id<<12, attempts, delay)

			least, most = min(least, delay), max(most, delay)
		}

		if least < step*9/10 || most > step*11/10 || most-least < step/10 {
			t.Errorf("after %d attempts: %v to %v, want about %v", attempts, least, most, step)
		}
	}
}

func TestAfterFailure(t *testing.T) {
	const now = model.Instant(1_000_000_000)
	for _, test := range []struct {
		name       string
		delivery   model.Delivery
		class      string
		retryAfter time.Duration
		state      string
		atLeast    time.Duration
		atMost     time.Duration
	}{
		{"first", model.Delivery{ScheduledAttempts: 1}, model.AttemptServerError, 0, "pending", 4500 * time.Millisecond, 5500 * time.Millisecond},
		{"fourth", model.Delivery{ScheduledAttempts: 4}, model.AttemptTimeout, 0, "pending", 9 * time.Hour, 11 * time.Hour},
		{"fifth", model.Delivery{ScheduledAttempts: 5}, model.AttemptTimeout, 0, "failed", 0, 0},
		{"gone", model.Delivery{ScheduledAttempts: 1}, model.AttemptGone, 0, "failed", 0, 0},
		{"no address", model.Delivery{ScheduledAttempts: 1}, model.AttemptNoWebhook, 0, "failed", 0, 0},
		{"test", model.Delivery{ScheduledAttempts: 1, Kind: model.DeliveryTest}, model.AttemptTimeout, 0, "failed", 0, 0},
		{"asked to wait", model.Delivery{ScheduledAttempts: 1}, model.AttemptRateLimited, time.Hour, "pending", time.Hour, time.Hour},
		{"asked to wait too long", model.Delivery{ScheduledAttempts: 1}, model.AttemptRateLimited, 1 << 62, "pending", 2 * time.Hour, 2 * time.Hour},
		{
			name: "asked to wait less", delivery: model.Delivery{ScheduledAttempts: 2}, class: model.AttemptRateLimited,
			retryAfter: time.Second, state: "pending", atLeast: 270 * time.Second, atMost: 330 * time.Second,
		},
		{"manual, failed before", model.Delivery{ScheduledAttempts: 3, ResumeState: "failed"}, model.AttemptTimeout, 0, "failed", 0, 0},
		{"manual, delivered before", model.Delivery{ScheduledAttempts: 1, ResumeState: "delivered"}, model.AttemptGone, 0, "delivered", 0, 0},
		{
			name: "manual, pending before", delivery: model.Delivery{ScheduledAttempts: 2, ResumeState: "pending"},
			class: model.AttemptTimeout, retryAfter: 0, state: "pending", atLeast: 270 * time.Second,
			atMost: 330 * time.Second,
		},
		{"manual, pending before, used up", model.Delivery{ScheduledAttempts: 5, ResumeState: "pending"}, model.AttemptTimeout, 0, "failed", 0, 0},
	} {
		state, next := test.delivery.AfterFailure(test.class, test.retryAfter, now)
		if wait := next.Sub(now); state != test.state || wait < test.atLeast || wait > test.atMost {
			t.Errorf("%s: %s after %v, want %s after %v to %v", test.name, state, wait, test.state, test.atLeast, test.atMost)
		}
	}
}
