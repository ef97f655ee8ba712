package serve

import (
	"errors"
	"net"

	"golang.org/x/sys/unix"
)

// noInterface is an index that no network interface has.
const noInterface = 1<<31 - 1

// refuseConnections makes the kernel refuse further attempts to connect, as if nothing listened.
// The listener is bound to an interface that does not exist. So no attempt finds it, while
// connections in its queue, and handshakes in progress, continue. It needs Linux 5.7 and no
// privilege.
func refuseConnections(l net.Listener) error {
	return control(l, func(fd int) error {
		return unix.SetsockoptInt(fd, unix.SOL_SOCKET, unix.SO_BINDTOIFINDEX, noInterface)
	})
}

// waitingConnections returns the number of connections that the listener has not handed out.
func waitingConnections(l net.Listener) (n uint32, err error) {
	err = control(l, func(fd int) error {
		info, err := unix.GetsockoptTCPInfo(fd, unix.IPPROTO_TCP, unix.TCP_INFO)
		n = info.Unacked // for a listener, the length of its queue
		return err
	})
	return n, err
}

// control calls f with the descriptor of a *net.TCPListener.
func control(l net.Listener, f func(fd int) error) error {
	raw, err := l.(*net.TCPListener).SyscallConn()
	if err != nil {
		return err
	}

	var result error
	err = raw.Control(func(fd uintptr) { result = f(int(fd)) })
	return errors.Join(err, result)
}
