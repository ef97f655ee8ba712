package auth

import (
	"crypto/rand"
	"crypto/sha256"
	"crypto/subtle"
	"encoding/binary"
	"net/http"
	"time"

	"github.com/tallygate/tallygate/db/model"
)

const (
	deviceLifetime  = 365 * 24 * time.Hour
	deviceIDLength  = 16
	deviceIdentity  = sha256.Size + deviceIDLength
	devicePayload   = deviceIdentity + 4 // with the generation
	deviceName      = "tallygate_device"
	deviceNameHTTPS = "__Host-tallygate-device"
)

// devices remembers in a signed cookie that a browser has signed in to an address before. The
// cookie grants nothing but a sign-in counter of its own, see signInLimits. It contains the SHA-256
// of the address, a random number, and the generation of the password: a password change
// invalidates it.
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

// read returns the device's identity if the browser has signed in to this address before, or nil,
// and the generation of the password at that time. A cookie without a generation is of generation
// 0.
func (d *devices) read(r *http.Request, address string) (identity []byte, generation int32) {
	c, err := r.Cookie(d.name)
	if err != nil {
		return nil, 0
	}

	var payload []byte
	if d.codec.Decode(d.name, c.Value, &payload) != nil {
		return nil, 0
	}

	switch len(payload) {
	case devicePayload:
		generation = int32(binary.BigEndian.Uint32(payload[deviceIdentity:]))
	case deviceIdentity:
	default:
		return nil, 0
	}

	want := sha256.Sum256([]byte(address))
	if subtle.ConstantTimeCompare(payload[:sha256.Size], want[:]) != 1 {
		return nil, 0
	}

	return payload[:deviceIdentity], generation
}

// remember sets the cookie after the user has signed in or changed the password. A device that was
// known before keeps its identity, and with it its counter.
func (d *devices) remember(w http.ResponseWriter, r *http.Request, user *model.User) error {
	identity, generation := d.read(r, user.Email)
	if identity == nil || generation != user.PasswordGeneration {
		sum := sha256.Sum256([]byte(user.Email))
		identity = append(sum[:], make([]byte, deviceIDLength)...)
		rand.Read(identity[sha256.Size:])
	}

	payload := binary.BigEndian.AppendUint32(identity, uint32(user.PasswordGeneration))
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
