package serve

import (
	"context"
	"fmt"
	"io"
	"log"
	"net"
	"net/http"
	"time"

	"github.com/tallygate/tallygate/cmd/tallygate/config"
)

// The limits of all HTTP servers. A download extends its own write deadline while the client keeps
// reading.
const (
	readHeaderTimeout = 5 * time.Second
	readTimeout       = 10 * time.Second
	writeTimeout      = 30 * time.Second
	idleTimeout       = 60 * time.Second
	maxHeaderBytes    = 16 << 10 // bytes
)

// listen opens the listeners of the roles, and sets the public origins that derive from them.
func (a *App) listen() error {
	c := a.config
	var err error

	if c.Has(config.RoleControl) {
		if a.control, err = listen("control", string(c.ControlAddr), &c.BaseURL); err != nil {
			return err
		}
	}

	if c.Has(config.RoleData) {
		if a.data, err = listen("data", string(c.DataAddr), &c.AnalyticsURL); err != nil {
			return err
		}
	}

	// A process without one of the roles still needs the other's origin, for instance in script
	// tags.
	if c.BaseURL == "" {
		c.BaseURL = config.Origin("http://" + string(c.ControlAddr))
	}
	if c.AnalyticsURL == "" {
		c.AnalyticsURL = config.Origin("http://" + string(c.DataAddr))
	}
	if c.CaptchaURL == "" {
		c.CaptchaURL = c.AnalyticsURL
	}

	return nil
}

func listen(role, addr string, origin *config.Origin) (*server, error) {
	// Plain TCP: kernels of some years ignore on other sockets what refuseConnections sets.
	var plain net.ListenConfig
	plain.SetMultipathTCP(false)
	l, err := plain.Listen(context.Background(), "tcp", addr)
	if err != nil {
		return nil, fmt.Errorf("--%s-addr: %w", role, err)
	}
	if *origin == "" {
		*origin = config.Origin("http://" + l.Addr().String())
	}

	return &server{Server: NewServer(nil), listener: l, url: string(*origin), accepted: make(chan struct{})}, nil
}

// NewServer returns a server with the service's limits. It logs no errors, because net/http's
// messages contain the client's address.
func NewServer(handler http.Handler) *http.Server {
	return &http.Server{
		Handler:           handler,
		ReadHeaderTimeout: readHeaderTimeout,
		ReadTimeout:       readTimeout,
		WriteTimeout:      writeTimeout,
		IdleTimeout:       idleTimeout,
		MaxHeaderBytes:    maxHeaderBytes,
		ErrorLog:          log.New(io.Discard, "", 0),
	}
}
