package serve

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

// drain stops the process in the order that loses nothing:
//
//  1. report "not ready", so that load balancers stop sending (announceStop, before drain);
//  2. close all listeners at once, after the requests on new connections have arrived;
//  3. finish the requests in flight, which still need the writers; a request that takes too long,
//     such as a download to a slow client, is cut off;
//  4. stop the writers, after they have stored what is queued;
//  5. stop the workers, whose tasks still need the database;
//  6. wait for the child, which drains meanwhile, and close the database (in Run).
func (a *App) drain() error {
	a.markDraining()
	a.stopAccepting()
	err := a.finishRequests()
	ctx, cancel := context.WithTimeout(context.Background(), drainTimeout-requestsTimeout-handshakeTime-arrivalTime)
	defer cancel()

	if a.analytics != nil {
		err = errors.Join(err, a.analytics.Stop(ctx), a.captcha.Stop(ctx))
	}
	if a.jobs != nil {
		err = errors.Join(err, a.jobs.Stop(ctx))
	}
	if a.notifier != nil {
		err = errors.Join(err, a.notifier.Stop())
	}

	return err
}

// announceStop responds with "draining" to readiness checks and continues to serve for the
// configured time, so that load balancers remove the process before its listeners close. A second
// signal ends the wait.
func (a *App) announceStop() {
	second := make(chan os.Signal, 1)
	if a.parent == nil {
		signal.Notify(second, syscall.SIGINT, syscall.SIGTERM)
		defer signal.Stop(second)
	}

	a.log.Info("draining", "delay", a.config.DrainDelay.String())
	a.markDraining()

	if a.config.DrainDelay == 0 {
		return
	}

	delay := time.NewTimer(a.config.DrainDelay)
	defer delay.Stop()

	select {
	case <-delay.C:
	case <-a.parent.Hurry():
	case <-second:
		a.log.Info("a second signal ends the wait")
		if a.child != nil {
			a.child.Stop()
		}
	}
}

// markDraining makes the process not ready from now on.
func (a *App) markDraining() {
	now := time.Now()
	a.draining.CompareAndSwap(nil, &now)
}

// leaving closes each connection after its response while the process drains. Otherwise a load
// balancer's idle connection would close while the next request is on it.
func (a *App) leaving(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if a.draining.Load() != nil {
			w.Header().Set("Connection", "close")
		}
		next.ServeHTTP(w, r)
	})
}

// finishRequests waits for the requests of all servers, and closes their connections. Every hit
// finishes in time. Long downloads of the control plane may be cut off, which is not an error.
func (a *App) finishRequests() error {
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
