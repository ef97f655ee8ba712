package main

import (
	"bytes"
	"context"
	"os"
	"strconv"
	"strings"
	"syscall"
	"time"
)

// This file looks at processes through Linux's /proc. Elsewhere everything reads as zero, and
// reports leave it out.

// procStat is what /proc tells of a process.
type procStat struct {
	parent int
	cpu    time.Duration // of the process and of its children that have ended
	memory int64         // resident bytes
}

// clockTick is the unit of CPU times in /proc; Linux has kept it at 100 a second on all its
// platforms for programs.
const clockTick = 10 * time.Millisecond

func readProc(pid int) (procStat, bool) {
	text, err := os.ReadFile("/proc/" + strconv.Itoa(pid) + "/stat")
	if err != nil {
		return procStat{}, false
	}

	// The second field is the program's name in parentheses, with any characters in it.
	fields := strings.Fields(string(text[bytes.LastIndexByte(text, ')')+1:]))
	if len(fields) < 22 {
		return procStat{}, false
	}

	// as numbered in proc(5)
	number := func(field int) int64 {
		n, _ := strconv.ParseInt(fields[field-3], 10, 64)
		return n
	}

	return procStat{
		parent: int(number(4)),
		cpu:    time.Duration(number(14)+number(15)+number(16)+number(17)) * clockTick,
		memory: number(24) * int64(os.Getpagesize()),
	}, true
}

// family lists a process and its direct children.
func family(pid int) map[int]procStat {
	members := make(map[int]procStat)
	entries, err := os.ReadDir("/proc")
	if err != nil || pid == 0 {
		return members
	}

	for _, entry := range entries {
		member, err := strconv.Atoi(entry.Name())
		if err != nil {
			continue
		}
		if stat, ok := readProc(member); ok && (member == pid || stat.parent == pid) {
			members[member] = stat
		}
	}

	return members
}

// familyCPU is the CPU time that a process and its children, also those that have ended, took so
// far.
func familyCPU(pid int) time.Duration {
	var sum time.Duration
	for _, stat := range family(pid) {
		sum += stat.cpu
	}
	return sum
}

// signalFamily sends a signal to a process and its direct children.
func signalFamily(pid int, s syscall.Signal) {
	for member := range family(pid) {
		// it may have ended meanwhile
		_ = syscall.Kill(member, s)
	}
}

// cost is what processes took during a measurement.
type cost struct {
	CPU        time.Duration // of the server; 0: not known
	OtherCPU   time.Duration // of the others, such as the database's processes
	PeakMemory int64         // of the server, resident bytes
}

// watchCost measures a server, and other processes with their children, from now on until ctx ends.
func watchCost(ctx context.Context, server int, others []int) (c cost) {
	first, _ := readProc(server)
	firstOthers := cpuOf(others)
	ticker := time.NewTicker(100 * time.Millisecond)
	defer ticker.Stop()

	look := func() {
		if now, ok := readProc(server); ok {
			c.CPU, c.PeakMemory = now.cpu-first.cpu, max(c.PeakMemory, now.memory)
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
