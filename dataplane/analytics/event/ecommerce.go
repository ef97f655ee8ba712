package event

import (
	"strings"
	"unicode/utf8"

	"github.com/go-json-experiment/json/jsontext"

	"github.com/tallygate/tallygate/db/model"
)

// Limits of the e-commerce fields. An id or a number beyond its limit makes the event bad_event, because it cannot be cut
// without becoming another one; a name is cut.
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

// ecommerceFields is the contract's table of e-commerce events (section 2). A field that is not an event's own is kept as
// any other property.
var ecommerceFields = map[string]struct{ required, optional field }{
	model.EventViewItem:      {itemID, itemName | price | quantity},
	model.EventAddToCart:     {itemID, itemName | price | quantity},
	model.EventBeginCheckout: {value | currency, items},
	model.EventPurchase:      {transactionID | value | currency, items},
	model.EventRefund:        {transactionID | value | currency, items},
}

// ecommerce reads an event's fields and keeps its other properties as they were sent. The fields count, and have to be
// readable, even when the properties are too large to be kept. An optional field that is null is absent.
func (r *reader) ecommerce(name string) (Accepted, error) {
	event := Accepted{Name: name}
	fields := ecommerceFields[name]
	var seen field
	err := r.properties(func(key string, exact bool) error {
		f := fieldNames[key] & (fields.required | fields.optional)
		if f == 0 {
			r.write(jsontext.String(key))
			return r.copyValue()
		}
		if !exact {
			return errField // not the field, and it cannot be kept under the field's name
		}
		if r.in.PeekKind() == 'n' {
			return r.in.SkipValue()
		}
		seen |= f
		return r.readField(f, key, &event)
	})
	if err != nil || seen&fields.required != fields.required {
		return Accepted{}, ErrBad
	}
	if name == model.EventRefund {
		event.Value = -event.Value
	}
	event.Properties = r.result()
	return event, nil
}

// readField reads one of an event's own fields into where it belongs: a field of its own, or the properties.
func (r *reader) readField(f field, key string, event *Accepted) (err error) {
	switch f {
	case value:
		event.Value, err = must(r.number(maxAmount))
	case currency:
		event.Currency, err = r.currency()
	case transactionID:
		event.TransactionID, err = r.id(maxTransactionID)
	case items:
		err = r.items(key)
	default:
		err = r.keepItemField(f, key)
	}
	return err
}

// keepItemField reads one of the four fields that describe an item and keeps it.
func (r *reader) keepItemField(f field, key string) error {
	switch f {
	case itemID:
		id, err := r.id(maxItemID)
		r.writeText(key, id)
		return err
	case itemName:
		name, err := must(r.text())
		r.writeText(key, model.Clean(name, maxItemName))
		return err
	case price:
		n, err := must(r.number(maxAmount))
		r.writeNumber(key, n)
		return err
	default:
		n, err := must(r.number(maxQuantity))
		if n%unit != 0 {
			return errField
		}
		r.writeNumber(key, n)
		return err
	}
}

// items reads a list of objects and keeps their item fields; other keys of an item go.
func (r *reader) items(key string) error {
	if r.in.PeekKind() != '[' {
		return errField
	}
	r.write(jsontext.String(key))
	if err := r.copyToken(); err != nil {
		return err
	}
	for r.in.PeekKind() != ']' {
		if err := r.item(); err != nil {
			return err
		}
	}
	return r.copyToken()
}

func (r *reader) item() error {
	return r.eachMember(func(key string, exact bool) error {
		f := fieldNames[key] & itemFields
		switch {
		case f != 0 && !exact:
			return errField
		case f == 0, r.in.PeekKind() == 'n':
			return r.in.SkipValue()
		}
		return r.keepItemField(f, key)
	})
}

// id reads a text of 1 to limit characters.
func (r *reader) id(limit int) (string, error) {
	id, err := must(r.text())
	if err == nil && (id == "" || utf8.RuneCountInString(id) > limit) {
		err = errField
	}
	return id, err
}

// currency reads three ASCII letters and returns them as capitals.
func (r *reader) currency() (string, error) {
	code, err := must(r.text())
	if err == nil && !isCurrency(code) {
		err = errField
	}
	return strings.ToUpper(code), err
}

func isCurrency(s string) bool {
	return len(s) == 3 && isLetter(s[0]) && isLetter(s[1]) && isLetter(s[2])
}

func isLetter(c byte) bool { return c|0x20 >= 'a' && c|0x20 <= 'z' }

// must turns "not of this type, or out of range" into an error.
func must[T any](v T, ok bool, err error) (T, error) {
	if err == nil && !ok {
		err = errField
	}
	return v, err
}
