package process

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"runtime/debug"
	"slices"
	"testing"
	"time"

	"github.com/tallygate/tallygate/tools/testkit"
)

// TestCostOfTheEnd checks that CPU time used just before the end of a measurement counts.
func TestCostOfTheEnd(t *testing.T) {
	if _, ok := Read(os.Getpid()); !ok {
		t.Fatal("there is no /proc")
	}

	ctx, end := context.WithCancel(t.Context())
	begun, measured := make(chan bool, 1), make(chan Cost)
	go func() { measured <- Watch(signallingContext{ctx, begun}, os.Getpid(), nil) }()
	<-begun
	begin, _ := Read(os.Getpid())
	now := begin
	for now.cpu-begin.cpu < 50*time.Millisecond {
		now, _ = Read(os.Getpid())
	}

	end()

	if c := <-measured; c.CPU < now.cpu-begin.cpu {
		t.Errorf("%v of %v are counted", c.CPU, now.cpu-begin.cpu)
	}
}

// TestPeak checks that the peak stays after memory was returned.
func TestPeak(t *testing.T) {
	const size = 64 << 20
	before := Peak(os.Getpid())
	if before <= 0 {
		t.Fatal("there is no /proc")
	}

	memory := make([]byte, size)
	for i := 0; i < size; i += os.Getpagesize() {
		memory[i] = 1
	}
	runtime.KeepAlive(memory)
	memory = nil
	debug.FreeOSMemory()

	now, _ := Read(os.Getpid())
	if peak := Peak(os.Getpid()); peak < size || peak < before || peak < now.Memory {
		t.Errorf("a peak of %d bytes after %d, of which %d remain", peak, size, now.Memory)
	}
	if peak := Peak(0); peak != 0 {
		t.Errorf("a process that does not exist has a peak of %d bytes", peak)
	}
}

// TestChildren checks that children are found whichever thread has started them, that their memory
// counts, and that a killed child has ended before it was waited for.
func TestChildren(t *testing.T) {
	var started []*exec.Cmd
	for range 3 {
		child := exec.Command("/bin/sh", "-c", "echo ready; read -r line")
		input, err := child.StdinPipe()
		testkit.NoError(t, err)
		defer input.Close()
		output, err := child.StdoutPipe()
		testkit.NoError(t, err)

		// A goroutine with a thread of its own starts the child, and keeps the thread.
		failed, end := make(chan error), make(chan struct{})
		defer close(end)
		go func() {
			runtime.LockOSThread()
			failed <- child.Start()
			<-end
		}()
		testkit.NoError(t, <-failed)
		if _, err := output.Read(make([]byte, 1)); err != nil {
			t.Fatal(err)
		}
		started = append(started, child)
	}

	found := Children(os.Getpid())
	var memory int64
	for _, child := range started {
		stat, ok := Read(child.Process.Pid)
		if !slices.Contains(found, child.Process.Pid) || !ok || Ended(child.Process.Pid) {
			t.Errorf("child %d is not among %v", child.Process.Pid, found)
		}
		memory += stat.Memory
	}
	ctx, end := context.WithCancel(t.Context())
	end()
	if c := Watch(ctx, os.Getpid(), nil); memory == 0 || c.ChildMemory < memory || c.PeakMemory < c.OwnMemory+memory || c.OwnMemory == 0 {
		t.Errorf("%+v, want %d bytes of children", c, memory)
	}
	own := kilobytes(os.Getpid(), "smaps_rollup", "Pss:")
	if own == 0 || Memory(os.Getpid()) <= own || Children(0) != nil || Memory(0) != 0 {
		t.Errorf("%d bytes with children, %d without a process", Memory(os.Getpid()), Memory(0))
	}

	for _, child := range started {
		testkit.NoError(t, child.Process.Kill())
		testkit.Await(t, "the end of a killed child", func() bool { return Ended(child.Process.Pid) })
		if err := child.Wait(); err == nil || !Ended(child.Process.Pid) {
			t.Errorf("after the wait: %v", err)
		}
	}
}

// signallingContext sends to begun when its end is first waited for.
type signallingContext struct {
	context.Context
	begun chan<- bool
}

func (c signallingContext) Done() <-chan struct{} {
	select {
	case c.begun <- true:
	default:
	}
	return c.Context.Done()
}

// TestProgramOf starts a program, ends it, and starts it again as it was.
func TestProgramOf(t *testing.T) {
	folder := t.TempDir()
	output, err := os.Create(filepath.Join(folder, "output"))
	testkit.NoError(t, err)
	defer output.Close()

	// The shell writes once it is ready, and ends with its input.
	first := exec.Command("/bin/sh", "-c", `echo "$0 $GREETING" >> written; read -r line; exit 0`, "an argument")
	first.Dir, first.Env, first.Stderr = folder, []string{"GREETING=hello"}, output
	input, err := first.StdinPipe()
	testkit.NoError(t, err)
	testkit.NoError(t, first.Start())
	awaitText(t, filepath.Join(folder, "written"), "an argument hello\n")

	program, err := ProgramOf(first.Process.Pid)
	testkit.NoError(t, err)
	testkit.NoError(t, errors.Join(input.Close(), first.Wait()))
	testkit.NoError(t, program.Start())
	awaitText(t, filepath.Join(folder, "written"), "an argument hello\nan argument hello\n")
}

func awaitText(t *testing.T, path, want string) {
	t.Helper()
	testkit.AwaitState(t, fmt.Sprintf("the text %q", want), func() (string, bool) {
		text, err := os.ReadFile(path)
		return fmt.Sprintf("%q, error %v", text, err), string(text) == want
	})
}
