package serve

import (
	"context"
	"errors"
	"fmt"
	"sync"

	"github.com/tallygate/tallygate/cmd/tallygate/database"
	"github.com/tallygate/tallygate/cmd/tallygate/version"
	"github.com/tallygate/tallygate/db/files"
)

// Run serves until ctx ends, then drains and closes.
func (a *App) Run(ctx context.Context) error {
	defer a.Close()

	running := version.Read()
	a.log.Info("starting", "version", running.Version, "commit", running.Commit, "go", running.Go)

	if a.parent == nil {
		a.warnOfExposedFiles()
	}
	a.warnOfPlainOrigins()
	defer a.background(files.New(a.db).WriteBack, a.watchKeys, a.watchCertificates, a.files.watch)()

	if a.analytics != nil {
		a.analytics.Start()
		a.captcha.Start()
	}

	if a.notifier != nil {
		a.notifier.Start()
	}

	if a.jobs != nil {
		// The writers run already, so that they must be stopped before the database is closed.
		if err := a.jobs.Start(); err != nil {
			return errors.Join(fmt.Errorf("start the worker: %w", err), a.drain())
		}
	}

	failed := make(chan error, 7)

	for role, s := range a.servers() {
		a.log.Info("listening", "role", role, "addr", s.listener.Addr().String(), "url", s.url)
		go func() {
			if err := s.run(); err != nil {
				failed <- fmt.Errorf("%s listener: %w", role, err)
			}
		}()
	}

	// Orders end before the listeners close, which answer the authority's challenges.
	stopOrders := func() {}
	if a.acme != nil {
		stopOrders = a.background(a.acme.Run)
	}

	stopChild, childEnded := a.runChild(ctx, failed)
	go a.announceStart(ctx)

	var err error
	select {
	case <-ctx.Done():
		a.announceStop()
	case err = <-failed:
	}

	a.notifyManager("STOPPING=1")
	stopOrders()

	// With TLS, requests for the child come through this process, and must be finished first.
	if a.secure == nil {
		stopChild()
	}
	err = errors.Join(err, a.drain())
	stopChild()
	err = errors.Join(err, childEnded())
	a.log.Info("stopped", "clean", err == nil)
	return err
}

// announceStart reports to the service manager and to the parent that all roles serve.
func (a *App) announceStart(ctx context.Context) {
	select {
	case <-a.serving:
	case <-ctx.Done():
		return
	}

	a.notifyManager("READY=1")
	if a.parent != nil {
		addresses := make(map[string]string)
		for role, s := range a.servers() {
			addresses[role] = s.listener.Addr().String()
		}
		a.parent.Ready(addresses, a.registry)
	}
}

// background starts tasks that run until their context ends. stop ends the context and waits for
// them.
func (a *App) background(tasks ...func(context.Context)) (stop func()) {
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

// warnOfExposedFiles logs which files in the data folder are readable by other users of the
// machine.
func (a *App) warnOfExposedFiles() {
	if exposed := database.Exposed(a.config); len(exposed) > 0 {
		a.log.Warn("other users of this machine can read the data folder or files in it; revoke their rights, for "+
			"instance with chmod -R go= on the folder", "paths", exposed)
	}
}
