// Package process reads the CPU time and memory of processes from Linux's /proc. On other systems
// everything is zero, and reports leave it out.
package process

import (
	"bytes"
	"context"
	"os"
	"strconv"
	"strings"
	"syscall"
	"time"
)

// Stat is the state of a process.
type Stat struct {
	parent int
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
		parent: int(number(4)),
		cpu:    time.Duration(number(14)+number(15)+number(16)+number(17)) * clockTick,
		Memory: number(24) * int64(os.Getpagesize()),
	}, true
}

// Peak returns the most memory that a process ever used, in resident bytes, or 0 if that is unknown.
func Peak(pid int) int64 {
	text, err := os.ReadFile("/proc/" + strconv.Itoa(pid) + "/status")
	if err != nil {
		return 0
	}

	for line := range strings.Lines(string(text)) {
		// For example "VmHWM:	   51200 kB".
		if size, ok := strings.CutPrefix(line, "VmHWM:"); ok {
			kilobytes, _ := strconv.ParseInt(strings.TrimSuffix(strings.TrimSpace(size), " kB"), 10, 64)
			return kilobytes << 10
		}
	}

	return 0
}

// family returns a process and its direct children by process id.
func family(pid int) map[int]Stat {
	members := make(map[int]Stat)
	entries, err := os.ReadDir("/proc")
	if err != nil || pid == 0 {
		return members
	}

	for _, entry := range entries {
		member, err := strconv.Atoi(entry.Name())
		if err != nil {
			continue
		}
		if stat, ok := Read(member); ok && (member == pid || stat.parent == pid) {
			members[member] = stat
		}
	}

	return members
}

// familyCPU returns the CPU time of a process and its children, including terminated ones.
func familyCPU(pid int) time.Duration {
	var sum time.Duration
	for _, stat := range family(pid) {
		sum += stat.cpu
	}
	return sum
}

// SignalFamily sends a signal to a process and its direct children.
func SignalFamily(pid int, s syscall.Signal) {
	for member := range family(pid) {
		// The process may have terminated since.
		_ = syscall.Kill(member, s)
	}
}

// Cost is the CPU time and memory that processes used during a measurement.
type Cost struct {
	CPU        time.Duration // of the server; 0: unknown
	OtherCPU   time.Duration // of the others, such as the database's processes
	PeakMemory int64         // of the server, resident bytes
}

// Watch measures a server, and other processes with their children, until ctx ends.
func Watch(ctx context.Context, server int, others []int) (c Cost) {
	first, _ := Read(server)
	firstOthers := cpuOf(others)
	ticker := time.NewTicker(100 * time.Millisecond)
	defer ticker.Stop()

	look := func() {
		if now, ok := Read(server); ok {
			c.CPU, c.PeakMemory = now.cpu-first.cpu, max(c.PeakMemory, now.Memory)
		}
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
