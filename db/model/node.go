package model

import (
	"encoding/base64"
	"strconv"
	"strings"
)

// NodeID is the global id under which GraphQL and the export know a row, for instance base64("Site:1").
func NodeID(kind string, id int64) string {
	return base64.StdEncoding.EncodeToString([]byte(kind + ":" + strconv.FormatInt(id, 10)))
}

// ParseNodeID reads the global id of a row of the given kind. It accepts exactly what NodeID writes.
func ParseNodeID(kind, s string) (int64, bool) {
	raw, err := base64.StdEncoding.DecodeString(s)
	if err != nil {
		return 0, false
	}
	digits, ok := strings.CutPrefix(string(raw), kind+":")
	if !ok {
		return 0, false
	}
	id, err := strconv.ParseInt(digits, 10, 64)
	return id, err == nil && id > 0 && NodeID(kind, id) == s
}
