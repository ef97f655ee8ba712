package model_test

import (
	"testing"
	"time"

	"github.com/tallygate/tallygate/db/model"
	"github.com/tallygate/tallygate/tools/testkit"
)

// TestQuietHours checks when messages that are written in quiet hours are due, also on the days on
// which Berlin changes its clocks.
func TestQuietHours(t *testing.T) {
	t.Parallel()
	night := model.QuietHours{From: 22 * 60, To: 7 * 60, Zone: "Europe/Berlin"}
	noon := model.QuietHours{From: 12 * 60, To: 13*60 + 30, Zone: "Europe/Berlin"}
	skipped := model.QuietHours{From: 1 * 60, To: 2*60 + 30, Zone: "Europe/Berlin"}

	for name, test := range map[string]struct {
		quiet    model.QuietHours
		at, want string
	}{
		"none":                    {model.QuietHours{Zone: "Europe/Berlin"}, "2026-07-01T23:00:00Z", "2026-07-01T23:00:00Z"},
		"an unknown zone":         {model.QuietHours{From: 0, To: 60, Zone: "Mars/Base"}, "2026-07-01T00:30:00Z", "2026-07-01T00:30:00Z"},
		"before the night":        {night, "2026-07-01T19:59:59Z", "2026-07-01T19:59:59Z"},
		"the night begins":        {night, "2026-07-01T20:00:00Z", "2026-07-02T05:00:00Z"},
		"after midnight":          {night, "2026-07-02T01:00:00Z", "2026-07-02T05:00:00Z"},
		"the last second":         {night, "2026-07-02T04:59:59Z", "2026-07-02T05:00:00Z"},
		"the night ends":          {night, "2026-07-02T05:00:00Z", "2026-07-02T05:00:00Z"},
		"a short night in spring": {night, "2026-03-28T22:00:00Z", "2026-03-29T05:00:00Z"},
		"a long night in autumn":  {night, "2026-10-24T21:00:00Z", "2026-10-25T06:00:00Z"},
		"the end of the month":    {night, "2026-12-31T22:00:00Z", "2027-01-01T06:00:00Z"},
		"noon":                    {noon, "2026-01-10T11:15:00Z", "2026-01-10T12:30:00Z"},
		"after noon":              {noon, "2026-01-10T12:30:00Z", "2026-01-10T12:30:00Z"},
		"an end that is skipped":  {skipped, "2026-03-29T00:30:00Z", "2026-03-29T01:30:00Z"},
		"an end that is repeated": {skipped, "2026-10-24T23:30:00Z", "2026-10-25T01:30:00Z"},
		"the end's second time":   {skipped, "2026-10-25T01:15:00Z", "2026-10-25T01:30:00Z"},
		"Kathmandu, a quarter of hour": {
			quiet: model.QuietHours{From: 0, To: 6 * 60, Zone: "Asia/Kathmandu"}, at: "2026-05-01T18:15:00Z",
			want: "2026-05-02T00:15:00Z",
		},
	} {
		at, err := time.Parse(time.RFC3339, test.at)
		testkit.NoError(t, err)
		testkit.Equal(t, test.quiet.Until(model.At(at)).Time().Format(time.RFC3339), test.want, "%s: due at", name)
	}
}

// TestAttribute checks who answers for a channel with events of the installation, and that only an
// operator changes its address.
func TestAttribute(t *testing.T) {
	t.Parallel()
	operator, other, member := &model.User{ID: 1, Operator: true}, &model.User{ID: 2, Operator: true}, &model.User{ID: 3}
	jobs, quota := []model.AlertEvent{model.AlertJobsFailed}, []model.AlertEvent{model.AlertQuota}
	for name, test := range map[string]struct {
		channel         model.AlertChannel
		by              *model.User
		events, address bool
		want            model.UserID
		refused         bool
	}{
		"an operator adds them to a member's channel": {model.AlertChannel{CreatedBy: 3, Events: jobs}, operator, true, false, 1, false},
		"another operator changes the address":        {model.AlertChannel{OperatorID: 1, Events: jobs}, other, false, true, 2, false},
		"an operator changes the name":                {model.AlertChannel{OperatorID: 1, Events: jobs}, other, false, false, 1, false},
		"a member changes the name":                   {model.AlertChannel{OperatorID: 1, Events: jobs}, member, false, false, 1, false},
		"a member keeps the events":                   {model.AlertChannel{OperatorID: 1, Events: jobs}, member, true, false, 1, false},
		"a member changes the address":                {model.AlertChannel{OperatorID: 1, Events: jobs}, member, false, true, 1, true},
		"a member removes them with the address":      {model.AlertChannel{OperatorID: 1, Events: quota}, member, true, true, 0, false},
		"an operator removes them":                    {model.AlertChannel{OperatorID: 1, Events: quota}, operator, true, false, 0, false},
	} {
		err := test.channel.Attribute(test.by, test.events, test.address)
		if (err != nil) != test.refused || test.channel.OperatorID != test.want {
			t.Errorf("%s: operator %d, %v, want %d", name, test.channel.OperatorID, err, test.want)
		}
	}
}

// TestQuietHoursCheck checks what quiet hours can be.
func TestQuietHoursCheck(t *testing.T) {
	t.Parallel()
	for name, test := range map[string]struct {
		quiet model.QuietHours
		ok    bool
	}{
		"none":            {model.QuietHours{}, true},
		"a night":         {model.QuietHours{From: 1320, To: 420, Zone: "Europe/Berlin"}, true},
		"no zone":         {model.QuietHours{From: 1320, To: 420}, false},
		"the local zone":  {model.QuietHours{From: 1320, To: 420, Zone: "Local"}, false},
		"an unknown zone": {model.QuietHours{From: 1320, To: 420, Zone: "Europe/Nowhere"}, false},
		"always":          {model.QuietHours{From: 60, To: 60, Zone: "UTC"}, false},
		"a late end":      {model.QuietHours{From: 0, To: 1440, Zone: "UTC"}, false},
		"an early begin":  {model.QuietHours{From: -1, To: 60, Zone: "UTC"}, false},
	} {
		if err := test.quiet.Check("quietHours"); (err == nil) != test.ok {
			t.Errorf("%s: %v", name, err)
		}
	}
}

// TestAlertAddressHint checks that a hint never shows the secret of an address.
func TestAlertAddressHint(t *testing.T) {
	t.Parallel()
	for address, want := range map[string]string{
		"https://hooks.slack.com/services/T0/B0/abcdefghijkl": "hooks.slack.com/…ijkl",
		"https://example.org":                   "example.org",
		"https://example.org/hook":              "example.org",
		"https://example.org:8443/?secret=abcd": "example.org:8443",
		"https://example.org/?key=0123456789ab": "example.org/…89ab",
		"http://example.org/0123456789012345":   "",
	} {
		testkit.Equal(t, model.AlertAddressHint(address), want, "%s", address)
	}
}
