package serve

import (
	"net"
	"os"
)

// notifyManager reports a state, such as READY=1, to systemd if that started this process as a unit
// of Type=notify. See sd_notify(3).
func (a *App) notifyManager(state string) {
	socket := os.Getenv("NOTIFY_SOCKET")
	if socket == "" {
		return
	}

	// Go understands the "@" of a socket without a file.
	conn, err := net.DialUnix("unixgram", nil, &net.UnixAddr{Name: socket, Net: "unixgram"})
	if err == nil {
		defer conn.Close()
		_, err = conn.Write([]byte(state))
	}
	if err != nil {
		a.log.Warn("the service manager was not notified", "state", state, "error", err)
	}
}
