package auth

import (
	"crypto/rand"
	"crypto/sha256"
	"crypto/subtle"
	"net/http"
	"time"
)

const (
	deviceLifetime  = 365 * 24 * time.Hour
	deviceIDLength  = 16
	devicePayload   = sha256.Size + deviceIDLength
	deviceName      = "tallygate_device"
	deviceNameHTTPS = "__Host-tallygate-device"
)

// devices remembers in a signed cookie that a browser has signed in to an address before. The cookie grants nothing but a
// sign-in counter of its own (see limits). It holds the SHA-256 of the address and a random number.
type devices struct {
	name   string
	secure bool
	codec  *cookieSigner
}

func newDevices(codec *cookieSigner, secure bool) *devices {
	d := &devices{name: deviceName, secure: secure, codec: codec}
	if secure {
		d.name = deviceNameHTTPS
	}
	return d
}

// known returns the device's identity when the browser has signed in to this address before, or nil.
func (d *devices) known(r *http.Request, address string) []byte {
	c, err := r.Cookie(d.name)
	if err != nil {
		return nil
	}
	var payload []byte
	if d.codec.Decode(d.name, c.Value, &payload) != nil || len(payload) != devicePayload {
		return nil
	}
	want := sha256.Sum256([]byte(address))
	if subtle.ConstantTimeCompare(payload[:sha256.Size], want[:]) != 1 {
		return nil
	}
	return payload
}

// remember sets the cookie after a successful sign-in. A known device keeps its identity and so its counter.
func (d *devices) remember(w http.ResponseWriter, r *http.Request, address string) error {
	payload := d.known(r, address)
	if payload == nil {
		sum := sha256.Sum256([]byte(address))
		payload = append(sum[:], make([]byte, deviceIDLength)...)
		rand.Read(payload[sha256.Size:])
	}
	value, err := d.codec.Encode(d.name, payload)
	if err != nil {
		return err
	}
	http.SetCookie(w, &http.Cookie{
		Name: d.name, Value: value, Path: "/", MaxAge: int(deviceLifetime / time.Second),
		HttpOnly: true, Secure: d.secure, SameSite: http.SameSiteLaxMode,
	})
	return nil
}
