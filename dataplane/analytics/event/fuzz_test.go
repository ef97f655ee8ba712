package event_test

import (
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/tallygate/tallygate/dataplane/analytics/event"
	"github.com/tallygate/tallygate/db/model"
)

// FuzzCheck checks that no input panics, that accepted events can be stored on both databases, and
// that the stored properties of a site's own event pass again unchanged.
func FuzzCheck(f *testing.F) {
	names := []string{
		"signup", "outbound_click", "file_download", "scroll", "site_search",
		"view_item", "add_to_cart", "begin_checkout", "purchase", "refund",
	}

	for _, sample := range samples {
		for i := range names {
			f.Add(uint8(i), []byte(sample.properties))
		}
	}

	for i, properties := range []string{
		`{"a":"x\u0000y","\ud83d":[{"b":"\n"}]}`, "{\"a\":\"\xff\"}", `{"file":"a.pdf","ext":"pdf"}`, `{"percent":90}`, `{"term":"a"}`,
		`{"item_id":"1","price":1.5e3,"quantity":2.0}`, `{"item_id":"1","item\u0000_id":"2"}`, `{"value":1e12,"currency":"eur","items":[{}]}`,
		`{"a":1e400,"b":[1e-400,` + strings.Repeat("9", 310) + `]}`, `{"a":1,"a":{"b":1,"b":[]},"\u0061":2}`,
		`{"a\u0000":1,"a\ufffd":2,"\ud800":3,"\ud801":4}`,
		`{"item_id":7,"item_name":7,"price":-5,"quantity":1.5}`, `{"host":"https://shop.example/"}`, `{"host":"//a/"}`, `{"a":"\t\r\n\u001f\u007f"}`,
		`{"transaction_id":7,"value":1,"currency":"EUR","items":[5,{"item_id":5,"item_id":"5"}]}`,
		`{"transaction_id":"1","value":0.0000005,"currency":"EUR","x":[[[[[[[[]]]]]]]]}`, `null`,
	} {
		f.Add(uint8(i), []byte(properties))
	}

	f.Fuzz(func(t *testing.T, i uint8, properties []byte) {
		name := names[int(i)%len(names)]
		got, err := event.Check(name, properties, everything)
		if err != nil {
			if !errors.Is(err, event.ErrBad) && !errors.Is(err, event.ErrOwnLink) || got != (event.Accepted{}) {
				t.Fatalf("Check(%s, %q) = %+v, %v", name, properties, got, err)
			}

			return
		}

		if err := storable(got); err != nil {
			t.Fatalf("Check(%s, %q) = %+v: %v", name, properties, got, err)
		}
		if again, err := event.Check("signup", []byte(got.Properties), everything); err != nil || again.Properties != got.Properties {
			t.Fatalf("%q becomes %q, %v when it is checked again", got.Properties, again.Properties, err)
		}
	})
}

// storable returns what is wrong with an accepted event according to encoding/json.
func storable(a event.Accepted) error {
	const most = 1_000_000_000_000_000_000
	switch {
	case !model.IsStorable(a.Properties) || !model.IsStorable(a.TransactionID):
		return errors.New("not storable")
	case len(a.Properties) > 4_096:
		return fmt.Errorf("%d bytes of properties", len(a.Properties))
	case utf8.RuneCountInString(a.TransactionID) > 128:
		return errors.New("transaction id too long")
	case a.Name == model.EventRefund && (a.Value > 0 || a.Value < -most):
		return errors.New("refund out of range")
	case a.Name != model.EventRefund && (a.Value < 0 || a.Value > most):
		return errors.New("value out of range")
	case len(a.Currency) != 0 && len(a.Currency) != 3, a.Currency == "" && a.Value != 0:
		return errors.New("no currency")
	case a.Properties == "":
		return nil
	}

	var object map[string]json.RawMessage
	if err := json.Unmarshal([]byte(a.Properties), &object); err != nil {
		return err
	}

	return storableInside(json.RawMessage(a.Properties))
}

// storableInside checks each unescaped text, key and number.
func storableInside(raw json.RawMessage) error {
	var object map[string]json.RawMessage
	var list []json.RawMessage

	var text string
	switch {
	case raw[0] == '{' && json.Unmarshal(raw, &object) == nil:
		for key, member := range object {
			if !model.IsStorable(key) {
				return fmt.Errorf("key %q", key)
			}
			if err := storableInside(member); err != nil {
				return err
			}
		}
	case raw[0] == '[' && json.Unmarshal(raw, &list) == nil:
		for _, element := range list {
			if err := storableInside(element); err != nil {
				return err
			}
		}
	case raw[0] == '-' || raw[0] >= '0' && raw[0] <= '9':
		var number float64
		return json.Unmarshal(raw, &number)
	case raw[0] == '"' && json.Unmarshal(raw, &text) == nil:
		if !model.IsStorable(text) {
			return fmt.Errorf("text %q", text)
		}
	}

	return nil
}
