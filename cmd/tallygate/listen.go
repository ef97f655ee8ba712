package main

import (
	"fmt"
	"io"
	"log"
	"net"
	"net/http"
	"time"
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
func (a *app) listen() error {
	c := a.config
	var err error

	if c.Has(RoleControl) {
		if a.control, err = listen("control", string(c.ControlAddr), &c.BaseURL); err != nil {
			return err
		}
	}

	if c.Has(RoleData) {
		if a.data, err = listen("data", string(c.DataAddr), &c.AnalyticsURL); err != nil {
			return err
		}
	}

	// A process without one of the roles still needs the other's origin, for instance in script
	// tags.
	if c.BaseURL == "" {
		c.BaseURL = "http://" + Origin(c.ControlAddr)
	}
	if c.AnalyticsURL == "" {
		c.AnalyticsURL = "http://" + Origin(c.DataAddr)
	}
	if c.CaptchaURL == "" {
		c.CaptchaURL = c.AnalyticsURL
	}

	return nil
}

func listen(role, addr string, origin *Origin) (*server, error) {
	l, err := net.Listen("tcp", addr)
	if err != nil {
		return nil, fmt.Errorf("--%s-addr: %w", role, err)
	}
	if *origin == "" {
		*origin = Origin("http://" + l.Addr().String())
	}

	return &server{listener: l, url: string(*origin), Server: http.Server{
		ReadHeaderTimeout: readHeaderTimeout,
		ReadTimeout:       readTimeout,
		WriteTimeout:      writeTimeout,
		IdleTimeout:       idleTimeout,
		MaxHeaderBytes:    maxHeaderBytes,
		ErrorLog:          discardLog(),
	}}, nil
}

// discardLog returns a logger for net/http that writes nothing: its messages contain the client's
// address, which must not be logged. The handlers log their own errors.
func discardLog() *log.Logger { return log.New(io.Discard, "", 0) }
