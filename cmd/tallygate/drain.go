package main

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"os"
	"os/signal"
	"syscall"
	"time"

	"golang.org/x/sync/errgroup"
)

// drainTimeout bounds the time from the signal to the end of the process. requestsTimeout is the
// share of requests in flight. It is longer than a hit can take.
const (
	drainTimeout    = 25 * time.Second
	requestsTimeout = 8 * time.Second
)

// drain ends the process's work in the order that loses nothing:
//
//  1. say "not ready", so that a load balancer stops sending (announceStop, before it);
//  2. stop accepting on all listeners at once and finish the requests under way, which still need the writer; what takes
//     longer than its share of the time, such as a download to a slow reader, is cut off;
//  3. stop the writers, which store whatever a request left behind;
//  4. stop the workers, whose tasks still need the database;
//  5. close the database (in run).
func (a *app) drain() error {
	a.draining.Store(true)
	err := a.finishRequests()
	ctx, cancel := context.WithTimeout(context.Background(), drainTimeout-requestsTimeout)
	defer cancel()

	if a.analytics != nil {
		err = errors.Join(err, a.analytics.Stop(ctx), a.captcha.Stop(ctx))
	}
	if a.jobs != nil {
		err = errors.Join(err, a.jobs.Stop(ctx))
	}
	if a.bell != nil {
		err = errors.Join(err, a.bell.Stop())
	}

	a.log.Info("stopped", "clean", err == nil)
	return err
}

// announceStop answers "draining" to readiness checks and serves on for the configured time, so
// that load balancers take the process out before its listeners close. A second signal ends the
// wait.
func (a *app) announceStop() {
	again := make(chan os.Signal, 1)
	signal.Notify(again, syscall.SIGINT, syscall.SIGTERM)
	defer signal.Stop(again)

	a.log.Info("draining", "delay", a.config.DrainDelay.String())
	a.draining.Store(true)

	if a.config.DrainDelay == 0 {
		return
	}

	delay := time.NewTimer(a.config.DrainDelay)
	defer delay.Stop()

	select {
	case <-delay.C:
	case <-again:
		a.log.Info("a second signal ends the wait")
	}
}

// leaving ends each connection with its answer while the process drains. A connection that a load
// balancer keeps would otherwise be closed when the next request is on it.
func (a *app) leaving(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if a.draining.Load() {
			w.Header().Set("Connection", "close")
		}
		next.ServeHTTP(w, r)
	})
}

// finishRequests stops all listeners. A hit is answered within seconds, whatever happens; only the
// control plane's requests are ever cut off, and that is no fault.
func (a *app) finishRequests() error {
	ctx, cancel := context.WithTimeout(context.Background(), requestsTimeout)
	defer cancel()

	var group errgroup.Group
	for role, s := range a.servers() {
		group.Go(func() error {
			err := s.Shutdown(ctx)
			if err == nil {
				return nil
			}

			a.log.Warn("requests were cut off", "role", role)

			if closeErr := s.Close(); role == "control" {
				return closeErr
			}

			return fmt.Errorf("drain %s listener: %w", role, err)
		})
	}

	return group.Wait()
}
