package scenario

import (
	"context"
	"errors"
	"io"
	"net/http"
	"time"
)

// Noop serves the empty handler: it reads the body and responds with 204. It shows the cost
// of net/http and the client on this machine. Like the server, it is a process of its own with the
// same timeouts.
type Noop struct {
	Addr string `long:"addr" default:"127.0.0.1:8083" value-name:"HOST:PORT" unquote:"false" description:"Address to listen on."`
}

// Run serves until ctx ends.
func (c *Noop) Run(ctx context.Context) error {
	server := &http.Server{
		Addr:              c.Addr,
		ReadHeaderTimeout: 5 * time.Second,
		ReadTimeout:       10 * time.Second,
		WriteTimeout:      30 * time.Second,
		IdleTimeout:       60 * time.Second,
		MaxHeaderBytes:    16 << 10,
		Handler: http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			// A read error loses nothing.
			_, _ = io.Copy(io.Discard, r.Body)
			w.WriteHeader(http.StatusNoContent)
		}),
	}

	go func() {
		<-ctx.Done()
		_ = server.Close()
	}()

	if err := server.ListenAndServe(); !errors.Is(err, http.ErrServerClosed) {
		return err
	}

	return nil
}
