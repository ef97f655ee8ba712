package openapitest_test

import (
	"cmp"
	"encoding/json"
	"maps"
	"os"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/tallygate/tallygate/dataplane"
	"github.com/tallygate/tallygate/db/model"
	"github.com/tallygate/tallygate/tools/openapitest"
	"github.com/tallygate/tallygate/tools/testkit"
)

// TestWebhookDocuments compares model.WebhookMessages with the webhooks of the document, and with
// the table and the examples of docs/owner/webhooks.md.
func TestWebhookDocuments(t *testing.T) {
	t.Parallel()
	var document struct {
		Webhooks map[string]any `json:"webhooks"`
	}
	testkit.NoError(t, json.Unmarshal(dataplane.OpenAPI, &document))
	kinds := slices.Sorted(slices.Values(append(model.DeliveryKinds(), model.MessageKindAlert)))
	if described := slices.Sorted(maps.Keys(document.Webhooks)); !slices.Equal(described, kinds) {
		t.Errorf("openapi.json describes %q, and the kinds are %q", described, kinds)
	}

	page, err := os.ReadFile("../../docs/owner/webhooks.md")
	testkit.NoError(t, err)

	var want []string
	for _, m := range model.WebhookMessages {
		event := "other"
		if m.Event != "" {
			event = "`" + m.Event + "`"
		}
		if m.Kind == model.DeliveryDailyExport {
			event = "the day"
		}
		want = append(want, strings.Join([]string{
			m.Name, "`" + cmp.Or(m.Type, m.Kind) + "`", event, "`" + m.Webhook + "`", quoted(m.Fields), quoted(m.Optional),
		}, " | "))
	}
	if rows := tableRows(string(page), "| message |"); !slices.Equal(rows, want) {
		t.Errorf("the table of docs/owner/webhooks.md is\n%s\nwant\n%s", strings.Join(rows, "\n"), strings.Join(want, "\n"))
	}

	examples := map[string]int{}
	for _, match := range regexp.MustCompile("(?s)```json\n(.*?)```").FindAllStringSubmatch(string(page), -1) {
		var fields struct{ Type, Event, Webhook, Phase string }
		if err := json.Unmarshal([]byte(match[1]), &fields); err != nil {
			t.Errorf("%v in %s", err, match[1])
			continue
		}

		kind, event := fields.Type, fields.Event
		if fields.Phase != "" {
			kind = model.MessageKindAlert
		} else if fields.Type == model.DeliveryTest {
			event = map[string]string{"": model.TestEvent, model.DeliveryDailyExport: model.TestExportEvent}[fields.Webhook]
		}
		openapitest.Webhook(t, kind, event, match[1])
		message, _ := openapitest.MessageOf(kind, event)
		examples[message.Name]++
	}
	for _, m := range model.WebhookMessages {
		if examples[m.Name] != 1 {
			t.Errorf("docs/owner/webhooks.md has %d examples of the message %q", examples[m.Name], m.Name)
		}
	}
}

func quoted(fields []string) string {
	if len(fields) == 0 {
		return "–"
	}
	return "`" + strings.Join(fields, "`, `") + "`"
}

// tableRows returns the rows of the table that begins with a header, each without its outer bars.
func tableRows(page, header string) (rows []string) {
	_, table, _ := strings.Cut(page, header)
	for i, line := range strings.Split(table, "\n") {
		switch {
		case i < 2:
			// The rest of the header, and the line below it.
		case !strings.HasPrefix(line, "| "):
			return rows
		default:
			rows = append(rows, strings.TrimSuffix(strings.TrimPrefix(line, "| "), " |"))
		}
	}
	return rows
}

// TestTestMessages checks the bodies of tests.
func TestTestMessages(t *testing.T) {
	t.Parallel()
	at, site := model.At(time.Date(2026, 11, 27, 0, 0, 0, 0, time.UTC)), strings.Repeat("0123456789abcdef", 2)
	openapitest.Webhook(t, model.DeliveryTest, model.TestEvent, model.TestWebhookBody(model.DeliveryConversion, site, at))
	openapitest.Webhook(t, model.DeliveryTest, model.TestExportEvent, model.TestWebhookBody(model.DeliveryDailyExport, site, at))
}

// TestMessageOf finds the message of each delivery.
func TestMessageOf(t *testing.T) {
	t.Parallel()
	for _, test := range []struct{ kind, event, want string }{
		{"conversion", "purchase", "purchase"}, {"conversion", "refund", "refund"}, {"conversion", "signup", "key event"},
		{"daily_export", "2026-11-27", "daily export"}, {"test", "test", "test"}, {"test", "test_daily_export", "test of the daily export"},
		{"alert", "test", "test of a channel"}, {"alert", "weekly", "weekly summary"}, {"alert", "monthly", "monthly summary"},
		{"alert", "traffic_drop", "alert"}, {"test", "other", ""}, {"notice", "", ""},
	} {
		if got, ok := openapitest.MessageOf(test.kind, test.event); got.Name != test.want || ok != (test.want != "") {
			t.Errorf("%s %s is %q, %v; want %q", test.kind, test.event, got.Name, ok, test.want)
		}
	}
}
