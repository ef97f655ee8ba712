package db

import "github.com/tallygate/tallygate/db/model"

// UseApplicationKey gives the database the installation's application key, and a previous one that
// may have sealed some of the stored secrets. It is called once, before the database is used.
// Package keys seals and derives with them.
func (d *DB) UseApplicationKey(key model.ApplicationKey, previous ...model.ApplicationKey) {
	d.applicationKeys = append([]model.ApplicationKey{key}, previous...)
}

// ApplicationKeys returns the keys of UseApplicationKey, the current one first.
func (d *DB) ApplicationKeys() []model.ApplicationKey { return d.applicationKeys }
