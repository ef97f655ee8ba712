package model

import (
	"cmp"
	"database/sql/driver"
	"slices"
)

// Language is a language of mails, as an IETF tag. The zero value is English.
type Language string

// The languages of mails.
const (
	English Language = "en"
	German  Language = "de"
)

// Languages lists the languages of mails, the default first.
var Languages = []Language{English, German}

// IsLanguage reports whether mails are written in l.
func (l Language) IsLanguage() bool { return slices.Contains(Languages, l) }

// Value implements driver.Valuer.
func (l Language) Value() (driver.Value, error) { return string(cmp.Or(l, English)), nil }
