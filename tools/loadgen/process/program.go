package process

import (
	"fmt"
	"os"
	"os/exec"
	"strings"
	"syscall"
)

// Program is how a running process was started, so that it can be started again after its end.
type Program struct {
	path, dir, output string
	args, env         []string
	credential        *syscall.Credential
}

// ProgramOf reads how a process was started. It is for Linux.
func ProgramOf(pid int) (*Program, error) {
	p := &Program{}
	folder := fmt.Sprintf("/proc/%d", pid)
	for _, link := range []struct {
		name string
		to   *string
	}{{"exe", &p.path}, {"cwd", &p.dir}, {"fd/2", &p.output}} {
		target, err := os.Readlink(folder + "/" + link.name)
		if err != nil {
			return nil, err
		}
		*link.to = target
	}

	for _, list := range []struct {
		name string
		to   *[]string
	}{{"cmdline", &p.args}, {"environ", &p.env}} {
		text, err := os.ReadFile(folder + "/" + list.name)
		if err != nil {
			return nil, err
		}
		*list.to = strings.Split(strings.TrimRight(string(text), "\x00"), "\x00")
	}

	info, err := os.Stat(folder)
	if err != nil {
		return nil, err
	}

	// A program of another user starts again as that user.
	if owner := info.Sys().(*syscall.Stat_t); int(owner.Uid) != os.Getuid() {
		p.credential = &syscall.Credential{Uid: owner.Uid, Gid: owner.Gid}
	}
	return p, nil
}

// Start starts the program again, in a session of its own, so that it continues when the caller
// ends. Its output is appended to the same file as before.
func (p *Program) Start() error {
	output, err := os.OpenFile(p.output, os.O_APPEND|os.O_WRONLY, 0)
	if err != nil {
		return err
	}
	defer output.Close()

	cmd := &exec.Cmd{Path: p.path, Args: p.args, Env: p.env, Dir: p.dir, Stdout: output, Stderr: output,
		SysProcAttr: &syscall.SysProcAttr{Setsid: true, Credential: p.credential}}
	if err := cmd.Start(); err != nil {
		return err
	}
	go func() { _ = cmd.Wait() }()
	return nil
}
