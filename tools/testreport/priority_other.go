//go:build !linux

package main

import "os/exec"

// startEqual starts a command.
func startEqual(cmd *exec.Cmd) error { return cmd.Start() }
