//go:build !linux

package serve

import (
	"errors"
	"net"
)

// refuseConnections returns errors.ErrUnsupported: only Linux can.
func refuseConnections(net.Listener) error { return errors.ErrUnsupported }

func waitingConnections(net.Listener) (uint32, error) { return 0, errors.ErrUnsupported }
