package instance

import (
	"context"
	"errors"
	"fmt"
	"os"
	"slices"
	"syscall"
	"time"

	"github.com/tallygate/tallygate/tools/loadgen/load"
	"github.com/tallygate/tallygate/tools/loadgen/process"
)

// Fault is an outage of a part of an instance, or its move. It ends with everything running.
type Fault struct {
	Name string
	Do   func(ctx context.Context, round int) error // round counts from 0
}

// Pause returns how long an outage lasts.
type Pause func() time.Duration

// stoppable is a process that can be paused and killed.
type stoppable interface {
	Start(ctx context.Context) error
	Kill()
	Pause()
	Resume()
}

// Killed returns a fault that kills one of several processes in each round, in turn, and starts it
// again after the outage.
func Killed[P stoppable](name string, outage Pause, all ...P) Fault {
	return Fault{name, func(ctx context.Context, round int) error {
		p := all[round%len(all)]
		p.Kill()
		if outage != nil {
			_ = load.Wait(ctx, outage())
		}
		return p.Start(ctx)
	}}
}

// steadyTime is how long child processes run before they are killed: a server may wait longer and
// longer before it replaces one that ends again and again.
const steadyTime = 3 * time.Second

// ChildKilled returns a fault that kills the child processes of a server, and waits until the
// server has others and is ready. back receives how long that took.
func ChildKilled(name string, s *Server, back func(time.Duration)) Fault {
	return Fault{name, func(ctx context.Context, _ int) error {
		_ = load.Wait(ctx, steadyTime)
		killed := process.Children(s.Pid())
		if len(killed) == 0 {
			return errors.New("the server has no child process")
		}
		for _, child := range killed {
			_ = syscall.Kill(child, syscall.SIGKILL)
		}
		began := time.Now()

		// A killed child is still listed until the server has waited for it.
		replaced := func() bool {
			ended := !slices.ContainsFunc(killed, func(child int) bool { return !process.Ended(child) })
			isNew := func(child int) bool { return !slices.Contains(killed, child) }
			return ended && slices.ContainsFunc(process.Children(s.Pid()), isNew) && s.CheckReady(ctx) == nil
		}
		if err := s.await(ctx, replaced); err != nil {
			return err
		}
		back(time.Since(began))
		return nil
	}}
}

// ParentKilled returns a fault that kills a server, and not its child processes, and starts it
// again once they have ended. outlived receives how long they outlived it.
func ParentKilled(name string, s *Server, outlived func(time.Duration)) Fault {
	return Fault{name, func(ctx context.Context, _ int) error {
		children := process.Children(s.Pid())
		if err := syscall.Kill(s.Pid(), syscall.SIGKILL); err != nil {
			return err
		}
		began := time.Now()

		// Kill would wait for the children, because they write to the same log.
		waiting, cancel := context.WithTimeout(ctx, StartPatience)
		defer cancel()
		for _, child := range children {
			for !process.Ended(child) {
				if load.Wait(waiting, time.Millisecond) != nil {
					_ = syscall.Kill(child, syscall.SIGKILL)
					return fmt.Errorf("child process %d outlived its parent by more than %v", child, time.Since(began))
				}
			}
		}
		outlived(time.Since(began))
		s.Kill()
		return s.Start(ctx)
	}}
}

// Paused returns a fault that suspends a process.
func Paused(name string, outage Pause, p stoppable) Fault {
	return Fault{name, func(ctx context.Context, _ int) error {
		p.Pause()
		_ = load.Wait(ctx, outage())
		p.Resume()
		return nil
	}}
}

// Restarted returns a fault that restarts one of several servers in each round, in turn.
func Restarted(name string, all ...*Server) Fault {
	return Fault{name, func(ctx context.Context, round int) error { return all[round%len(all)].Restart(ctx) }}
}

// PostgresFaults returns the faults of a private PostgreSQL.
func (b *Instance) PostgresFaults(outage Pause) []Fault {
	return []Fault{
		{"crash postgres", func(context.Context, int) error { b.Postgres.Crash(); return b.Postgres.Restart() }},
		{"pause postgres", func(ctx context.Context, _ int) error {
			pid := b.Postgres.Pid()
			process.SignalFamily(pid, syscall.SIGSTOP)
			_ = load.Wait(ctx, outage())
			process.SignalFamily(pid, syscall.SIGCONT)
			return nil
		}},
	}
}

// CrashNode ends a node of the Citus cluster at once, and starts it again after the outage.
func (b *Instance) CrashNode(ctx context.Context, node string, outage time.Duration) error {
	pid, err := b.Citus.Pid(ctx, node)
	if err != nil {
		return err
	}
	program, err := process.ProgramOf(pid)
	if err != nil {
		return fmt.Errorf("database node %s: %w", node, err)
	}

	// An immediate shutdown: nothing is written, and the start recovers from the log.
	if err := syscall.Kill(pid, syscall.SIGQUIT); err != nil {
		return err
	}
	if err := b.awaitNode(ctx, node, false); err != nil {
		return err
	}
	_ = load.Wait(ctx, outage)

	// The node must run again even if the run is interrupted: it belongs to the caller.
	if err := program.Start(); err != nil {
		return fmt.Errorf("start the database node %s: %w", node, err)
	}
	return b.awaitNode(context.WithoutCancel(ctx), node, true)
}

// awaitNode waits until a database node accepts connections, or until it does not.
func (b *Instance) awaitNode(ctx context.Context, node string, up bool) error {
	ctx, cancel := context.WithTimeout(ctx, StartPatience)
	defer cancel()
	for {
		err := b.Citus.Ping(ctx, node)
		if up && err == nil || !up && errors.Is(err, syscall.ECONNREFUSED) {
			return nil
		}
		if load.Wait(ctx, 10*time.Millisecond) != nil {
			return fmt.Errorf("database node %s: %w", node, errors.Join(err, os.ErrDeadlineExceeded))
		}
	}
}
