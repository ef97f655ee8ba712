package analytics_test

import (
	"encoding/json"
	"fmt"
	"testing"

	"github.com/tallygate/tallygate/db/exports"
	"github.com/tallygate/tallygate/db/model"
	"github.com/tallygate/tallygate/tools/testkit"
)

// raw is JSON text that becomes part of a payload unchanged.
type raw = json.RawMessage

func mustJSON(tb testing.TB, v any) string {
	tb.Helper()
	text, err := json.Marshal(v)
	testkit.NoError(tb, err)
	return string(text)
}

// is compares one field of a row with the wanted value, and returns the difference.
func is[T comparable](want T, field func(exports.Pageview) T) func(exports.Pageview) string {
	return func(row exports.Pageview) string {
		if got := field(row); got != want {
			return fmt.Sprintf("stored %+v, want %+v", got, want)
		}
		return ""
	}
}

func path(r exports.Pageview) string             { return r.Path }
func lang(r exports.Pageview) string             { return r.Language }
func width(r exports.Pageview) string            { return model.WidthRangeName(r.WidthRange) }
func referrer(r exports.Pageview) string         { return r.Referrer }
func channelOf(r exports.Pageview) string        { return string(r.Channel) }
func campaign(r exports.Pageview) model.Campaign { return r.Campaign }
