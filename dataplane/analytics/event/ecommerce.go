package event

import (
	"strings"
	"unicode/utf8"

	"github.com/go-json-experiment/json/jsontext"

	"github.com/tallygate/tallygate/dataplane/bot"
	"github.com/tallygate/tallygate/db/model"
)

// Limits of the e-commerce fields. An id or a number beyond its limit is unreadable, because
// cutting it would change its meaning; a name is cut. An event without a readable required field is
// bad_event; an unreadable optional field is left out.
const (
	maxItemID        = 200 // characters
	maxItemName      = 200 // characters
	maxTransactionID = 128 // characters

	unit        = model.Money(1_000_000)
	maxAmount   = 1_000_000_000_000 * unit // value and price
	maxQuantity = 1_000_000 * unit
)

// field is a set of e-commerce fields.
type field uint8

const (
	itemID field = 1 << iota
	itemName
	price
	quantity
	value
	currency
	transactionID
	items

	itemFields = itemID | itemName | price | quantity
)

var fieldNames = map[string]field{
	"item_id":        itemID,
	"item_name":      itemName,
	"price":          price,
	"quantity":       quantity,
	"value":          value,
	"currency":       currency,
	"transaction_id": transactionID,
	"items":          items,
}

// ecommerceFields is the contract's table of e-commerce events (section 2). A field that does not
// belong to the event is kept like any other property.
var ecommerceFields = map[string]struct{ required, optional field }{
	model.EventViewItem:      {itemID, itemName | price | quantity},
	model.EventAddToCart:     {itemID, itemName | price | quantity},
	model.EventBeginCheckout: {value | currency, items},
	model.EventPurchase:      {transactionID | value | currency, items},
	model.EventRefund:        {transactionID | value | currency, items},
}

// Required returns the required fields of an e-commerce event, in no order.
func Required(name string) (fields []string) {
	for field, f := range fieldNames {
		if f&ecommerceFields[name].required != 0 {
			fields = append(fields, field)
		}
	}
	return fields
}

// ecommerce reads an event's fields and keeps its other properties as they were sent. The fields
// count even if the properties are too large to be stored. An unreadable optional field is left
// out, since the sale still happened.
func (r *reader) ecommerce(name string) (Accepted, error) {
	event := Accepted{Name: name}
	fields := ecommerceFields[name]
	var read field
	err := r.properties(func(key string) error {
		f := fieldNames[key] & (fields.required | fields.optional)
		if f == 0 {
			return r.copyMember(key)
		}

		ok, err := r.readField(f, key, &event)
		if ok {
			read |= f
		}

		return err
	})
	if err != nil {
		return Accepted{}, ErrBad
	}
	if missing := fields.required &^ read; missing != 0 {
		return Accepted{}, badField(missing)
	}

	if name == model.EventRefund {
		event.Value = -event.Value
	}

	event.Properties = r.result()
	return event, nil
}

// badField returns the error for required fields that are missing or unreadable. It names the first
// of them.
func badField(missing field) error {
	for name, f := range fieldNames {
		if f == missing&-missing {
			return &model.Error{Kind: ErrBad.Kind, Code: ErrBad.Code, Field: name, Cause: ErrBad}
		}
	}
	return ErrBad
}

// readField reads one of the event's own fields into the event or into the properties. It reports
// false for an unreadable field.
func (r *reader) readField(f field, key string, event *Accepted) (ok bool, err error) {
	switch f {
	case value:
		event.Value, ok, err = r.number(maxAmount)
	case currency:
		event.Currency, ok, err = r.currency()
	case transactionID:
		event.TransactionID, ok, err = r.id(maxTransactionID)
	case items:
		ok, err = r.items(key)
	default:
		ok, err = r.keepItemField(f, key)
	}

	return ok, err
}

// keepItemField reads one of the four fields that describe an item, and keeps it. It reports false
// for an unreadable field.
func (r *reader) keepItemField(f field, key string) (ok bool, err error) {
	var text string
	var n model.Money

	switch f {
	case itemID:
		text, ok, err = r.id(maxItemID)
	case itemName:
		text, ok, err = r.textOrNumber()
		text = model.Storable(text, maxItemName)
	case price:
		n, ok, err = r.number(maxAmount)
	default:
		n, ok, err = r.number(maxQuantity)
		ok = ok && n%unit == 0
	}

	if !ok || err != nil {
		return false, err
	}

	if f&(itemID|itemName) != 0 {
		r.writeText(key, text)
	} else {
		r.writeNumber(key, n)
	}

	return true, nil
}

// items reads a list and keeps its objects. Other elements are dropped.
func (r *reader) items(key string) (ok bool, err error) {
	if r.in.PeekKind() != '[' {
		return false, r.in.SkipValue()
	}

	r.write(jsontext.String(key))

	if err := r.copyToken(); err != nil {
		return false, err
	}

	for r.in.PeekKind() != ']' {
		if err := r.item(); err != nil {
			return false, err
		}
	}

	return true, r.copyToken()
}

// item keeps the item fields of an object. Other members are dropped.
func (r *reader) item() error {
	if r.in.PeekKind() != '{' {
		return r.in.SkipValue()
	}

	return r.eachMember(func(key string) error {
		f := fieldNames[key] & itemFields
		if f == 0 {
			return r.in.SkipValue()
		}
		_, err := r.keepItemField(f, key)
		return err
	})
}

// id reads a text of 1 to limit characters that is not blank. A number counts as its text.
func (r *reader) id(limit int) (string, bool, error) {
	id, ok, err := r.textOrNumber()
	return id, ok && strings.TrimSpace(id) != "" && utf8.RuneCountInString(id) <= limit, err
}

// currency reads three ASCII letters and returns them in upper case.
func (r *reader) currency() (string, bool, error) {
	code, ok, err := r.text()
	return strings.ToUpper(code), ok && isCurrency(code), err
}

func isCurrency(s string) bool {
	return len(s) == 3 && bot.IsLetter(s[0]) && bot.IsLetter(s[1]) && bot.IsLetter(s[2])
}
