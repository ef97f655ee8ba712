package queue

import (
	"context"
	"crypto/rand"
	"time"

	"github.com/alicebob/miniredis/v2"
	"github.com/redis/go-redis/v9"
)

// embedded is a Redis server inside this process, for an installation of one process. It keeps
// nothing when the process ends, which loses no work.
type embedded struct {
	server   *miniredis.Miniredis
	password string
}

// startEmbedded starts a server on loopback. A password keeps other programs out.
func startEmbedded() (*embedded, error) {
	e := &embedded{server: miniredis.NewMiniRedis(), password: rand.Text()}
	e.server.RequireAuth(e.password)
	return e, e.server.Start()
}

// servers returns the address of the server.
func (e *embedded) servers() *servers {
	return &servers{single: &redis.Options{
		Addr: e.server.Addr(), Password: e.password, MaintNotificationsConfig: noMaintenanceNotices(),
	}}
}

// age advances the server's clock until ctx ends. Its keys do not expire without that.
func (e *embedded) age(ctx context.Context) {
	ticker := time.NewTicker(time.Second)
	defer ticker.Stop()

	for {
		select {
		case <-ctx.Done():
			return
		case <-ticker.C:
			e.server.FastForward(time.Second)
		}
	}
}

func (e *embedded) close() { e.server.Close() }
