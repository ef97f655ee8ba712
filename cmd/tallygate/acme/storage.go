package acme

import (
	"context"
	"crypto"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"errors"

	"github.com/tallygate/tallygate/db/model"
)

// accountFile is the name of the account's key. No host has this name.
const accountFile = "account"

// fileName returns the name of a file in the database. The files of each directory are apart: a
// certificate of another authority is ordered again.
func (m *Manager) fileName(name string) string { return m.Directory + " " + name }

// stored returns the stored certificate of a host, or nil.
func (m *Manager) stored(ctx context.Context, name string) (*tls.Certificate, error) {
	ctx, cancel := context.WithTimeout(ctx, storeTimeout)
	defer cancel()

	text, err := m.store.Get(ctx, m.fileName(name))
	if errors.Is(err, model.ErrNotFound) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	return parse(text, name)
}

// save stores a new certificate. Until that succeeds, the certificate is served from memory and no
// other one is ordered.
func (m *Manager) save(ctx context.Context, h *host) {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), storeTimeout)
	defer cancel()

	if err := m.store.Put(ctx, m.fileName(h.name), h.unsaved); err != nil {
		m.Log.ErrorContext(ctx, "certificate not stored", "host", h.name, "error", err)
		return
	}
	h.unsaved = nil
}

// accountKey returns the key of the account with the directory, and creates a key if none is
// stored.
func (m *Manager) accountKey(ctx context.Context) (crypto.Signer, error) {
	ctx, cancel := context.WithTimeout(ctx, storeTimeout)
	defer cancel()

	text, err := m.store.Get(ctx, m.fileName(accountFile))
	if !errors.Is(err, model.ErrNotFound) {
		if err != nil {
			return nil, err
		}
		return parseKey(text)
	}

	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return nil, err
	}
	if text, err = pemOfKey(key); err != nil {
		return nil, err
	}
	return key, m.store.Put(ctx, m.fileName(accountFile), text)
}
