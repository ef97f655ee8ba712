package analytics_test

import (
	"encoding/json"
	"fmt"
	"testing"

	"github.com/tallygate/tallygate/db"
	"github.com/tallygate/tallygate/db/model"
)

// raw is JSON text that becomes part of a payload unchanged.
type raw = json.RawMessage

func mustJSON(tb testing.TB, v any) string {
	tb.Helper()
	text, err := json.Marshal(v)
	if err != nil {
		tb.Fatal(err)
	}
	return string(text)
}

// is compares one field of a row with the wanted value, and returns the difference.
func is[T comparable](want T, field func(db.ExportedPageview) T) func(db.ExportedPageview) string {
	return func(row db.ExportedPageview) string {
		if got := field(row); got != want {
			return fmt.Sprintf("stored %+v, want %+v", got, want)
		}
		return ""
	}
}

func path(r db.ExportedPageview) string             { return r.Path }
func lang(r db.ExportedPageview) string             { return r.Language }
func width(r db.ExportedPageview) string            { return model.WidthRangeName(r.WidthRange) }
func referrer(r db.ExportedPageview) string         { return r.Referrer }
func channelOf(r db.ExportedPageview) string        { return r.Channel }
func campaign(r db.ExportedPageview) model.Campaign { return r.Campaign }
