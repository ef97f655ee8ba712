package cluster

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"time"

	"github.com/tallygate/tallygate/db/cells"
	"github.com/tallygate/tallygate/tools/loadgen/instance"
	"github.com/tallygate/tallygate/tools/loadgen/process"
)

// event is something that happens to the cluster, and ends with everything running.
type event struct {
	name string
	do   func(ctx context.Context, round int) error // round counts from 0
}

const eventCount = 10

// events are in the order in which they happen in each round.
func (r *run) eventsOf(i *installation) []event {
	nodes := i.nodes()
	return slices.DeleteFunc([]event{
		{"data plane killed", func(ctx context.Context, round int) error { return kill(ctx, i.data[round%dataCount]) }},
		{"data plane restarted", func(ctx context.Context, round int) error { return restart(ctx, i.data[round%dataCount]) }},
		{"worker process killed", func(ctx context.Context, round int) error { return kill(ctx, i.workers[round%workerCount]) }},
		{"Redis master lost", func(ctx context.Context, _ int) error { return i.redis.LoseMaster(ctx) }},
		{"cell of node 1 moved to node 2 and back", r.moveCell},
		{"site moved to a cell of the other node", r.moveSite},
		{"captcha moved to a cell of another node", r.moveCaptcha},
		{"database node 1 crashed", func(ctx context.Context, _ int) error { return r.crash(ctx, nodes[0]) }},
		{"database node 2 crashed", func(ctx context.Context, _ int) error { return r.crash(ctx, nodes[1]) }},
		{"coordinator crashed", func(ctx context.Context, _ int) error { return r.crash(ctx, i.citus.Coordinator()) }},
	}, func(e event) bool { return !strings.Contains(e.name, r.Only) })
}

func kill(ctx context.Context, s *instance.Server) error {
	s.Kill()
	return s.Start(ctx)
}

func restart(ctx context.Context, s *instance.Server) error {
	return errors.Join(s.Stop(), s.Start(ctx))
}

// moveCell moves the first cell to the other node, and back.
func (r *run) moveCell(ctx context.Context, _ int) error {
	cell, nodes := r.installation.onWorkers()[0], r.installation.nodes()
	for _, node := range []string{nodes[1], nodes[0]} {
		if err := r.installation.citus.MoveSchema(ctx, cell.Schema, node); err != nil {
			return err
		}
	}
	return nil
}

// moveSite moves one of the moving sites, with the command of operators.
func (r *run) moveSite(ctx context.Context, round int) error {
	site := r.groups[moving].session.Traffic.Sites[round]
	from, err := r.cellOf(ctx, site.Key)
	if err != nil {
		return err
	}
	to := from
	for _, cell := range r.installation.onWorkers() {
		if cell.Node != from.Node {
			to = cell
		}
	}

	return r.admin(ctx, "move-site", site.Key, "--to", strconv.FormatInt(to.ID, 10))
}

// moveCaptcha moves the account's captcha, which begins in the default cell, to a cell of each worker
// of Citus in turn. An earlier move ends a minute after its switch.
func (r *run) moveCaptcha(ctx context.Context, round int) error {
	nodes := r.installation.nodes()
	node := nodes[round%len(nodes)]
	to := slices.IndexFunc(r.installation.cells, func(cell cells.Info) bool { return cell.Node == node })
	if to < 0 {
		return fmt.Errorf("node %s has no cell any more", node)
	}
	if err := r.installation.awaitMoves(ctx); err != nil {
		return err
	}
	return r.admin(ctx, "move-account", r.account.Target.Email, "--to", strconv.FormatInt(r.installation.cells[to].ID, 10))
}

// admin runs a command of operators.
func (r *run) admin(ctx context.Context, args ...string) error {
	cmd := exec.CommandContext(ctx, r.installation.program, append([]string{"admin"}, args...)...)
	for name, value := range r.installation.control.Env {
		cmd.Env = append(cmd.Env, name+"="+value)
	}
	if output, err := cmd.CombinedOutput(); err != nil {
		return fmt.Errorf("%s: %w: %s", args[0], err, output)
	}
	return nil
}

// crash ends a database node at once, and starts it again after the outage.
func (r *run) crash(ctx context.Context, node string) error {
	pid, err := r.installation.citus.Pid(ctx, node)
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
	if err := r.awaitNode(ctx, node, false); err != nil {
		return err
	}
	select {
	case <-ctx.Done():
	case <-time.After(r.Outage):
	}

	// The node must run again even if the run is interrupted: it belongs to the caller.
	if err := program.Start(); err != nil {
		return fmt.Errorf("start the database node %s: %w", node, err)
	}
	return r.awaitNode(context.WithoutCancel(ctx), node, true)
}

// awaitNode waits until a database node accepts connections, or until it does not.
func (r *run) awaitNode(ctx context.Context, node string, up bool) error {
	ctx, cancel := context.WithTimeout(ctx, instance.StartPatience)
	defer cancel()
	for {
		err := r.installation.citus.Ping(ctx, node)
		if up && err == nil || !up && errors.Is(err, syscall.ECONNREFUSED) {
			return nil
		}

		select {
		case <-ctx.Done():
			return fmt.Errorf("database node %s: %w", node, errors.Join(err, os.ErrDeadlineExceeded))
		case <-time.After(10 * time.Millisecond):
		}
	}
}
