package acme

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"strings"

	"golang.org/x/crypto/acme/autocert"

	"github.com/tallygate/tallygate/db/certificates"
	"github.com/tallygate/tallygate/db/model"
)

// errStorage means that the database failed.
var errStorage = errors.New("the database failed")

// cache keeps the library's files in the database, those of each directory apart: a certificate of another
// authority is ordered again. Answers to challenges are not kept. The library has them in memory too, and a lookup
// for each unauthenticated request would read the database.
type cache struct {
	store     *certificates.Store
	directory string
	log       *slog.Logger
}

var _ autocert.Cache = (*cache)(nil)

func (c *cache) name(key string) string { return c.directory + " " + key }

func isChallenge(key string) bool {
	return strings.HasSuffix(key, "+token") || strings.HasSuffix(key, "+http-01")
}

// Get returns a file, or autocert.ErrCacheMiss.
func (c *cache) Get(ctx context.Context, key string) ([]byte, error) {
	if isChallenge(key) {
		return nil, autocert.ErrCacheMiss
	}

	value, err := c.store.Get(ctx, c.name(key))
	switch {
	case errors.Is(err, model.ErrNotFound):
		return nil, autocert.ErrCacheMiss
	case err != nil:
		return nil, fmt.Errorf("%w: %w", errStorage, err)
	}
	return value, nil
}

// Put stores a file. The library ignores its error: the certificate is served until the process ends, and a
// restart orders another one.
func (c *cache) Put(ctx context.Context, key string, value []byte) error {
	if isChallenge(key) {
		return nil
	}

	err := c.store.Put(ctx, c.name(key), value)
	if err != nil {
		c.log.ErrorContext(ctx, "certificate not stored", "file", key, "error", err)
	}
	return err
}

// Delete deletes a file.
func (c *cache) Delete(ctx context.Context, key string) error {
	if isChallenge(key) {
		return nil
	}
	return c.store.Delete(ctx, c.name(key))
}
