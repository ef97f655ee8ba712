package webhook

import (
	"crypto/hmac"
	"crypto/sha256"
	"encoding/base64"
	"encoding/hex"
	"net/http"
	"strconv"
	"strings"
	"time"

	"github.com/tallygate/tallygate/db/model"
)

// sign sets the headers that identify a message and, with a secret, the headers that sign it: the
// contract's X-Service-Signature over the body alone (analytics contract, section 5), and the
// headers of Standard Webhooks, which also protect against replay. An old secret adds a second
// signature to the header of Standard Webhooks, which can hold several.
//
// The library of Standard Webhooks checks the result in tests. It does not sign here, because it
// copies the body three times, and the body of a daily export has megabytes.
func sign(header http.Header, secret, oldSecret, id string, at time.Time, body []byte) {
	timestamp := strconv.FormatInt(at.Unix(), 10)
	header.Set("webhook-id", id)
	header.Set("webhook-timestamp", timestamp)

	if secret == "" {
		return
	}

	header.Set("X-Service-Signature", "sha256="+hex.EncodeToString(mac([]byte(secret), body)))

	standard := func(secret string) string {
		sum := mac(standardKey(secret), []byte(id), []byte("."), []byte(timestamp), []byte("."), body)
		return "v1," + base64.StdEncoding.EncodeToString(sum)
	}

	signatures := standard(secret)
	if oldSecret != "" {
		signatures += " " + standard(oldSecret)
	}

	header.Set("webhook-signature", signatures)
}

// standardKey returns the key of Standard Webhooks. It decodes a secret in their form, whsec_ and
// base64. The bytes of any other secret are the key.
func standardKey(secret string) []byte {
	if encoded, ok := strings.CutPrefix(secret, model.StandardSecretPrefix); ok {
		if key, err := base64.StdEncoding.DecodeString(encoded); err == nil && len(key) > 0 {
			return key
		}
	}
	return []byte(secret)
}

// mac returns the HMAC-SHA256 of the parts, one after another.
func mac(key []byte, parts ...[]byte) []byte {
	h := hmac.New(sha256.New, key)
	for _, part := range parts {
		h.Write(part)
	}
	return h.Sum(nil)
}
