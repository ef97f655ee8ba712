package db

import "github.com/tallygate/tallygate/db/model"

// UseApplicationKey sets the installation's application key, and the previous keys that may have
// sealed some of the stored secrets. It must be called once, before the database is used. Package
// keys seals and derives with them.
func (d *DB) UseApplicationKey(key model.ApplicationKey, previous ...model.ApplicationKey) {
	d.applicationKeys = append([]model.ApplicationKey{key}, previous...)
}

// ApplicationKeys returns the keys set by UseApplicationKey, the current one first.
func (d *DB) ApplicationKeys() []model.ApplicationKey { return d.applicationKeys }
