package main

import (
	"fmt"
	"net"

	"github.com/tallygate/tallygate/tools/pgserver"
)

const (
	// postgresVariable is the address of the PostgreSQL on which tests create databases (see
	// package dbtest).
	postgresVariable = "TALLYGATE_TEST_POSTGRES_URL"

	// postgresPort is the port of the run's server, if it is free. The address is part of the key
	// of go test's cache.
	postgresPort = 15_432

	// postgresConnections is enough for the pools of all tests that run at once.
	postgresConnections = 1_000
)

// startPostgres starts one PostgreSQL for all packages and returns it with its environment
// variable. It returns nil if the environment names a server, and if PostgreSQL is not installed:
// then each package decides. Dir is the folder of its files, "" for the one of temporary files.
func startPostgres(dir string, getenv func(string) string) (*pgserver.Server, string, error) {
	bin, err := pgserver.Bin()
	if err != nil || getenv(postgresVariable) != "" {
		return nil, "", nil
	}

	o := pgserver.Options{Port: postgresPort, Connections: postgresConnections, Dir: dir}
	if l, err := net.Listen("tcp", fmt.Sprintf("127.0.0.1:%d", o.Port)); err != nil {
		o.Port = 0
	} else if err := l.Close(); err != nil {
		return nil, "", err
	}

	s, err := pgserver.Start(bin, o)
	if err != nil {
		return nil, "", fmt.Errorf("start PostgreSQL for the tests: %w", err)
	}
	return s, postgresVariable + "=" + s.URL(), nil
}
