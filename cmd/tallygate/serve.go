package main

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"sync"

	"github.com/tallygate/tallygate/db/files"
)

type serveCommand struct {
	Config `embed:""`
}

// Run serves until ctx ends.
func (c *serveCommand) Run(ctx context.Context, term terminal) error {
	app, err := open(ctx, &c.Config, logger(&c.Config, term.log))
	if err != nil {
		return err
	}
	return app.run(ctx)
}

// run serves until ctx ends, then drains.
func (a *app) run(ctx context.Context) error {
	defer a.close()

	a.warnOfExposedFiles()
	a.warnOfPlainOrigins()
	defer a.background(files.New(a.db).WriteBack, a.watchKeys)()

	if a.analytics != nil {
		a.analytics.Start()
		a.captcha.Start()
	}

	if a.notifier != nil {
		a.notifier.Start()
	}

	if a.jobs != nil {
		if err := a.jobs.Start(); err != nil {
			return err
		}
	}

	failed := make(chan error, 3)

	for role, s := range a.servers() {
		a.log.Info("listening", "role", role, "addr", s.listener.Addr().String(), "url", s.url)
		go func() {
			if err := s.Serve(s.listener); !errors.Is(err, http.ErrServerClosed) {
				failed <- fmt.Errorf("%s listener: %w", role, err)
			}
		}()
	}

	var err error
	select {
	case <-ctx.Done():
		a.announceStop()
	case err = <-failed:
	}

	return errors.Join(err, a.drain())
}

// background starts tasks that run until their context ends. stop ends the context and waits for
// them.
func (a *app) background(tasks ...func(context.Context)) (stop func()) {
	ctx, cancel := context.WithCancel(context.Background())
	var wg sync.WaitGroup
	for _, task := range tasks {
		wg.Go(func() { task(ctx) })
	}

	return func() {
		cancel()
		wg.Wait()
	}
}
