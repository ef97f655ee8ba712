package queue

import (
	"fmt"
	"testing"

	"github.com/tallygate/tallygate/tools/testkit"
)

// TestURLs: each form of URL is read as the servers that it names.
func TestURLs(t *testing.T) {
	for _, test := range []struct{ url, want string }{
		{"redis://h", "h:6379 db 0"},
		{"redis://h:7000/2", "h:7000 db 2"},
		{"rediss://u:p@h/1", "h:6379 db 1 user u p TLS"},
		{"redis-cluster://h", "cluster [h:6379]"},
		{"redis-cluster://u:p@h:1,i,[::1]:3,[::2]", "cluster [h:1 i:6379 [::1]:3 [::2]:6379] user u p"},
		{"rediss-cluster://h,i", "cluster [h:6379 i:6379] TLS"},
		{"redis-sentinel://h,i:1,j:6379?master=m", "sentinel m [h:26379 i:1 j:6379] db 0"},
		{"redis-sentinel://u:p@h,i/3?master=m&sentinel_user=su&sentinel_password=sp", "sentinel m [h:26379 i:26379] db 3 user u p su sp"},
		{"rediss-sentinel://:p%2Fq@h?master=m", "sentinel m [h:26379] db 0 user  p/q TLS"},
	} {
		s, err := parseURL(test.url)
		if err != nil {
			t.Errorf("%s: %v", test.url, err)
			continue
		}

		var got, user, password string
		var tls bool

		switch {
		case s.single != nil:
			got, user, password, tls = fmt.Sprintf(
				"%s db %d", s.single.Addr, s.single.DB,
			), s.single.Username, s.single.Password, s.single.TLSConfig != nil
		case s.cluster != nil:
			got, user, password, tls = fmt.Sprintf(
				"cluster %v",
				s.cluster.Addrs,
			), s.cluster.Username, s.cluster.Password, s.cluster.TLSConfig != nil
		default:
			f := s.sentinel
			got, user, password, tls = fmt.Sprintf(
				"sentinel %s %v db %d", f.MasterName, f.SentinelAddrs, f.DB,
			), f.Username, f.Password, f.TLSConfig != nil
		}

		if user+password != "" {
			got += " user " + user + " " + password
		}
		if s.sentinel != nil && s.sentinel.SentinelPassword != "" {
			got += " " + s.sentinel.SentinelUsername + " " + s.sentinel.SentinelPassword
		}
		if tls {
			got += " TLS"
		}

		testkit.Equal(t, got, test.want, "%s", test.url)
	}

	for _, bad := range []string{"", "redis", "redis://", "redis-other://h", "redisx://h", "redis-cluster://", "redis-cluster://h,,i",
		"redis-sentinel://h",
		"redis-cluster://h/1", "redis-cluster://h:x", "redis-sentinel://h?master=m&x=y"} {
		if err := CheckURL(bad); err == nil {
			t.Errorf("%q is accepted", bad)
		}
	}
}
