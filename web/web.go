// Package web holds what every HTTP edge of the program does in the same way: the status of an
// error, recovery from panics, throttled failure logs, CORS headers, and the client's address and
// network. The data plane, GraphQL, the export and the program's own listeners call it. It serves
// no endpoint, knows neither contract, and reads no database.
package web

import (
	"encoding/json"
	"net/http"
)

// WriteJSON answers with a value as JSON that no cache may store. A failed write is ignored: the
// client has left, and the work is already committed.
func WriteJSON(w http.ResponseWriter, answer any) {
	header := w.Header()
	header["Content-Type"] = []string{"application/json"}
	header["Cache-Control"] = []string{"no-store"}
	_ = json.NewEncoder(w).Encode(answer)
}
