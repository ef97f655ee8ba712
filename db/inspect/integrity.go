package inspect

import (
	"context"
	"errors"
	"fmt"

	"github.com/jackc/pgx/v5/pgconn"
	"github.com/uptrace/bun"
)

// ErrDamaged is part of each error about a table or an index that contradicts itself.
var ErrDamaged = errors.New("the database is damaged")

// CheckRows reads all tables and B-tree indexes of the service with PostgreSQL's extension amcheck,
// and returns ErrDamaged with a description of the first inconsistency. It waits for no writer and
// no writer waits for it. checked is false without the extension, or for a role that may not
// execute its functions.
func (s *Store) CheckRows(ctx context.Context) (checked bool, err error) {
	var extension string // its schema, quoted
	err = s.db.Read.NewRaw(`SELECT coalesce((SELECT quote_ident(nspname)
FROM pg_extension e JOIN pg_namespace n ON n.oid = extnamespace
WHERE extname = 'amcheck'
  AND has_function_privilege(to_regprocedure(quote_ident(nspname) || '.bt_index_check(regclass)'), 'EXECUTE')
  AND has_function_privilege(to_regprocedure(quote_ident(nspname) ||
    '.verify_heapam(regclass, boolean, boolean, text, bigint, bigint)'), 'EXECUTE')), '')`).
		Scan(ctx, &extension)
	if err != nil || extension == "" {
		return false, err
	}

	relations, err := s.relations(ctx)
	if err != nil {
		return true, err
	}

	for _, r := range relations {
		if err := s.checkRelation(ctx, extension, r); err != nil {
			return true, err
		}
	}

	return true, nil
}

// relation is a table or an index.
type relation struct {
	OID     int64
	Name    string // with its schema
	IsIndex bool
}

// relations lists the service's tables and its B-tree indexes.
func (s *Store) relations(ctx context.Context) (list []relation, err error) {
	schemas, err := s.schemas(ctx)
	if err != nil {
		return nil, err
	}

	err = s.db.Read.NewRaw(`SELECT c.oid::bigint AS oid, c.oid::regclass::text AS name, c.relkind = 'i' AS is_index
FROM pg_class c LEFT JOIN pg_index i ON i.indexrelid = c.oid
WHERE c.relnamespace IN (SELECT oid FROM pg_namespace WHERE nspname IN ?)
  AND c.relam IN (SELECT oid FROM pg_am WHERE amname IN ('heap', 'btree'))
  AND c.relpersistence = 'p'
  AND (c.relkind = 'r' OR c.relkind = 'i' AND i.indisvalid AND i.indisready)
ORDER BY c.relkind DESC, c.oid`, bun.Tuple(schemas)).Scan(ctx, &list)
	return list, err
}

// checkRelation reads a table or an index. A table that was dropped meanwhile has no fault.
func (s *Store) checkRelation(ctx context.Context, extension string, r relation) error {
	var found string
	query := "SELECT coalesce((SELECT msg FROM " + extension + ".verify_heapam(?::oid, true) LIMIT 1), '')"
	if r.IsIndex {
		query = "SELECT coalesce(" + extension + ".bt_index_check(?::oid)::text, '')"
	}
	err := s.db.Read.NewRaw(query, r.OID).Scan(ctx, &found)

	pg, isAnswer := errors.AsType[*pgconn.PgError](err)
	switch {
	case isAnswer && (pg.Code == "XX001" || pg.Code == "XX002"):
		return fmt.Errorf("%w: %s: %s", ErrDamaged, r.Name, pg.Message)
	case isAnswer && (pg.Code == "42P01" || pg.Code == "XX000"):
		return nil
	case err != nil:
		return err
	case found != "":
		return fmt.Errorf("%w: %s: %s", ErrDamaged, r.Name, found)
	}

	return nil
}
