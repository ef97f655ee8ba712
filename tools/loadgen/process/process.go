// Package process reads the CPU time and memory of processes from Linux's /proc. On other systems
// everything is zero, and reports leave it out.
package process

import (
	"bytes"
	"context"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"time"
)

// Stat is the state of a process.
type Stat struct {
	zombie bool
	cpu    time.Duration // of the process and its terminated children
	Memory int64         // resident bytes
}

// clockTick is the unit of CPU times in /proc. Linux reports 100 ticks a second to programs on all
// platforms.
const clockTick = 10 * time.Millisecond

// Read returns the state of a process, or false if there is no such process.
func Read(pid int) (Stat, bool) {
	text, err := os.ReadFile("/proc/" + strconv.Itoa(pid) + "/stat")
	if err != nil {
		return Stat{}, false
	}

	// The second field is the program's name in parentheses. It may contain any character.
	fields := strings.Fields(string(text[bytes.LastIndexByte(text, ')')+1:]))
	if len(fields) < 22 {
		return Stat{}, false
	}

	// Fields are numbered as in proc(5).
	number := func(field int) int64 {
		n, _ := strconv.ParseInt(fields[field-3], 10, 64)
		return n
	}

	return Stat{
		zombie: fields[0] == "Z",
		cpu:    time.Duration(number(14)+number(15)+number(16)+number(17)) * clockTick,
		Memory: number(24) * int64(os.Getpagesize()),
	}, true
}

// Memory returns the resident bytes of a process with its children, with each shared page counted
// once.
func Memory(pid int) (sum int64) {
	for _, member := range family(pid) {
		sum += kilobytes(member, "smaps_rollup", "Pss:")
	}
	return sum
}

// Peak returns the most memory that a process and each of its children ever used, as the sum in
// resident bytes, or 0 if that is unknown.
func Peak(pid int) (sum int64) {
	for _, member := range family(pid) {
		sum += kilobytes(member, "status", "VmHWM:")
	}
	return sum
}

// kilobytes returns the bytes in a line of a file of a process, for example "VmHWM:	   51200 kB",
// or 0 if they are unknown.
func kilobytes(pid int, file, name string) int64 {
	text, err := os.ReadFile("/proc/" + strconv.Itoa(pid) + "/" + file)
	if err != nil {
		return 0
	}

	for line := range strings.Lines(string(text)) {
		if size, ok := strings.CutPrefix(line, name); ok {
			n, _ := strconv.ParseInt(strings.TrimSuffix(strings.TrimSpace(size), " kB"), 10, 64)
			return n << 10
		}
	}
	return 0
}

// Children returns the direct children of a process, or none if there is no such process. It may
// miss a child if another one terminates meanwhile.
func Children(pid int) (pids []int) {
	// Linux lists a child under the thread that started it.
	lists, _ := filepath.Glob(fmt.Sprintf("/proc/%d/task/*/children", pid))
	for _, list := range lists {
		// The thread may have ended since.
		text, _ := os.ReadFile(list)
		for field := range strings.FieldsSeq(string(text)) {
			if child, err := strconv.Atoi(field); err == nil {
				pids = append(pids, child)
			}
		}
	}
	return pids
}

// family returns a process and its direct children, or none for 0, which signals would take for the
// caller's own group. The process is first, so that one that is killed replaces no child.
func family(pid int) []int {
	if pid <= 0 {
		return nil
	}
	return append([]int{pid}, Children(pid)...)
}

// Ended reports whether a process has terminated, even if its parent has not waited for it yet.
func Ended(pid int) bool {
	stat, ok := Read(pid)
	return !ok || stat.zombie
}

// familyCPU returns the CPU time of a process and its children, including terminated ones.
func familyCPU(pid int) time.Duration {
	var sum time.Duration
	for _, member := range family(pid) {
		stat, _ := Read(member)
		sum += stat.cpu
	}
	return sum
}

// SignalFamily sends a signal to a process and its direct children.
func SignalFamily(pid int, s syscall.Signal) {
	for _, member := range family(pid) {
		// The process may have terminated since.
		_ = syscall.Kill(member, s)
	}
}

// Cost is the CPU time and memory that processes used during a measurement.
type Cost struct {
	CPU         time.Duration // of the server and its children; 0: unknown
	OtherCPU    time.Duration // of the others, such as the database's processes
	PeakMemory  int64         // of the server and its children together, resident bytes
	OwnMemory   int64         // of the server alone, at most
	ChildMemory int64         // of its children together, at most
}

// Watch measures a server with its children, and other processes with theirs, until ctx ends. While
// a terminated child waits for the server to read its status, its time counts as before.
func Watch(ctx context.Context, server int, others []int) (c Cost) {
	first, firstOthers := familyCPU(server), cpuOf(others)
	ticker := time.NewTicker(100 * time.Millisecond)
	defer ticker.Stop()

	look := func() {
		now, ok := Read(server)
		if !ok {
			return
		}
		cpu, memory := now.cpu, int64(0)
		for _, child := range Children(server) {
			stat, _ := Read(child)
			cpu, memory = cpu+stat.cpu, memory+stat.Memory
		}

		c.CPU = max(c.CPU, cpu-first)
		c.OwnMemory, c.ChildMemory = max(c.OwnMemory, now.Memory), max(c.ChildMemory, memory)
		c.PeakMemory = max(c.PeakMemory, now.Memory+memory)
	}
	for {
		look()

		select {
		case <-ctx.Done():
			look()
			c.OtherCPU = cpuOf(others) - firstOthers
			return c
		case <-ticker.C:
		}
	}
}

func cpuOf(pids []int) (sum time.Duration) {
	for _, pid := range pids {
		sum += familyCPU(pid)
	}
	return sum
}
