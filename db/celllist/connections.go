package celllist

import (
	"context"
	"errors"
	"fmt"

	"github.com/jackc/pgx/v5"
	"github.com/uptrace/bun"

	"github.com/tallygate/tallygate/db/pgpool"
)

// Statements name tables without a schema. A connection of another cell than the default one finds
// the cell's tables first and the common ones after them (search_path), so one statement serves
// every cell, and a transaction can change rows of a cell and common rows.

// connections is the most connections of a process to a cell other than the default one, in
// addition to the connections of its writers of hits.
const connections = 6

// Connections are a cell with its connections, which bypass a pooler: it would give a session's
// search_path to other clients.
type Connections struct {
	Cell
	Path   string // the search_path
	Pool   *bun.DB
	Config *pgx.ConnConfig
}

// Connect returns the connections of a cell other than the default one. The list closes them. The
// id is one of Cells or of a site.
func (l *List) Connect(ctx context.Context, id int64) (*Connections, error) {
	if l.common == nil {
		return nil, fmt.Errorf("there is no cell %d", id)
	}
	if opened := l.openedCell(id); opened != nil {
		return opened, nil
	}

	known := l.last()
	cell, found := known.cell(id)
	if !found || cell.denied && !l.isFresh(known) {
		// Another process has just added it, or the role has the right now. A process that stores
		// hits does not list the cells otherwise.
		var err error
		if known, err = l.read(ctx); err != nil {
			return nil, err
		}
		if cell, found = known.cell(id); !found {
			return nil, fmt.Errorf("there is no cell %d", id)
		}
	}

	if cell.denied {
		return nil, fmt.Errorf("schema %s: %w", cell.Schema, ErrDenied)
	}

	return l.open(cell), nil
}

// openedCell returns the connections of a cell that was opened before, or nil.
func (l *List) openedCell(id int64) *Connections {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.opened[id]
}

func (l *List) open(cell Cell) *Connections {
	l.mu.Lock()
	defer l.mu.Unlock()
	if opened := l.opened[cell.ID]; opened != nil {
		return opened
	}

	c := &Connections{Cell: cell, Path: quote(cell.Schema) + ", " + l.CommonSchema(), Config: l.config.Copy()}
	c.Config.RuntimeParams["search_path"] = c.Path
	c.Pool = pgpool.Open(c.Config, connections, false)
	l.opened[cell.ID] = c
	return c
}

// QuotedSchema returns the schema of the cell's tables.
func (c *Connections) QuotedSchema() string { return quote(c.Schema) }

// CommonSchema returns the schema of the common tables, quoted. The cells were read before.
func (l *List) CommonSchema() string { return quote(l.last().common) }

func quote(schema string) string { return pgx.Identifier{schema}.Sanitize() }

// CloseCells closes the connections of all cells but the default one.
func (l *List) CloseCells() error {
	l.mu.Lock()
	defer l.mu.Unlock()

	var failed []error
	for _, c := range l.opened {
		failed = append(failed, c.Pool.Close())
	}
	return errors.Join(failed...)
}
