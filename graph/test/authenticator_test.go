package graph_test

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/sha256"
	"encoding/base64"
	"encoding/binary"
	"encoding/json"
	"strings"
	"testing"
)

// authenticator is a passkey in software. Its fields may be changed to make wrong answers.
type authenticator struct {
	t      testing.TB
	key    *ecdsa.PrivateKey
	id     []byte
	handle string // user handle in base64url, as registered
	origin string
	rpID   string
	count  uint32 // signatures; 0: does not count
	verify bool   // verifies its user
}

func newAuthenticator(t testing.TB, a *app) *authenticator {
	t.Helper()
	key := value(ecdsa.GenerateKey(elliptic.P256(), rand.Reader))(t)

	id := make([]byte, 16)
	rand.Read(id)
	return &authenticator{
		t: t, key: key, id: id, origin: strings.TrimSuffix(a.url, "/graphql"), rpID: "localhost", count: 1, verify: true,
	}
}

var webText = base64.RawURLEncoding

// data returns authenticator data with the flags of user presence, user verification, and more.
func (k *authenticator) data(flags byte, rest ...byte) []byte {
	flags |= 0x01
	if k.verify {
		flags |= 0x04
	}
	rp := sha256.Sum256([]byte(k.rpID))
	return append(binary.BigEndian.AppendUint32(append(rp[:], flags), k.count), rest...)
}

// clientData returns the client data of a ceremony for a request's options.
func (k *authenticator) clientData(ceremony, options string) []byte {
	k.t.Helper()

	var request struct {
		Challenge string
		User      struct{ ID string }
	}
	if err := json.Unmarshal([]byte(options), &request); err != nil {
		k.t.Fatalf("options %q: %v", options, err)
	}
	if request.User.ID != "" {
		k.handle = request.User.ID
	}

	data := value(json.Marshal(map[string]any{"type": ceremony, "challenge": request.Challenge, "origin": k.origin, "crossOrigin": false}))(k.t)
	return data
}

// create answers a request to create a passkey.
func (k *authenticator) create(options string) string {
	k.t.Helper()

	// 4, then 32 bytes for each coordinate
	point := value(k.key.PublicKey.Bytes())(k.t)
	x, y := point[1:33], point[33:]

	// COSE key: {1: 2, 3: -7, -1: 1, -2: x, -3: y}
	cose := append([]byte{0xa5, 0x01, 0x02, 0x03, 0x26, 0x20, 0x01, 0x21, 0x58, 0x20}, x...)
	cose = append(append(cose, 0x22, 0x58, 0x20), y...)

	attested := append(make([]byte, 16), 0, byte(len(k.id)))
	attested = append(append(attested, k.id...), cose...)
	data := k.data(0x40, attested...)

	// {"fmt": "none", "attStmt": {}, "authData": data}
	object := []byte("\xa3\x63fmt\x64none\x67attStmt\xa0\x68authData\x59")
	object = append(binary.BigEndian.AppendUint16(object, uint16(len(data))), data...)

	return k.credential(map[string]any{
		"clientDataJSON": webText.EncodeToString(k.clientData("webauthn.create", options)), "attestationObject": webText.EncodeToString(object),
		"transports": []string{"internal"},
	})
}

// get answers a request for a passkey, and counts the signature.
func (k *authenticator) get(options string) string {
	k.t.Helper()

	if k.count > 0 {
		k.count++
	}

	client, data := k.clientData("webauthn.get", options), k.data(0)
	hash := sha256.Sum256(client)
	digest := sha256.Sum256(append(data[:len(data):len(data)], hash[:]...))
	signature := value(ecdsa.SignASN1(rand.Reader, k.key, digest[:]))(k.t)

	return k.credential(map[string]any{
		"clientDataJSON": webText.EncodeToString(client), "authenticatorData": webText.EncodeToString(data),
		"signature": webText.EncodeToString(signature), "userHandle": k.handle,
	})
}

func (k *authenticator) credential(response map[string]any) string {
	k.t.Helper()
	id := webText.EncodeToString(k.id)
	text := value(json.Marshal(map[string]any{
		"id": id, "rawId": id, "type": "public-key", "response": response, "clientExtensionResults": map[string]any{},
	}))(k.t)
	return string(text)
}
