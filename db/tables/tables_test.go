package tables_test

import (
	"bytes"
	"database/sql/driver"
	"reflect"
	"testing"

	"github.com/tallygate/tallygate/db/model"
	"github.com/tallygate/tallygate/db/tables"
	"github.com/tallygate/tallygate/tools/testkit"
)

// TestValuesOfVisits checks that a visit written to SQLite is read back unchanged, and that no
// value is written as NULL, even of an empty visit.
func TestValuesOfVisits(t *testing.T) {
	full := model.Visit{
		SiteID: 1, Visitor: model.VisitorID{0xff, 2, 7: 3}, StartedAt: 4, N: 5, LastPageviewAt: 6, Pageviews: 7,
		Recent: []model.RecentView{{At: 8, Path: 12}}, Awaited: []byte{9}, Viewed: []byte{11},
		Client: model.Client{Country: "DE", Browser: model.Firefox, System: model.Linux, Device: model.Desktop, Host: "a.example"},
		UserID: []byte{10}, Referrer: "r", Channel: "email", Campaign: model.Campaign{Source: "a", Medium: "b", Name: "d",
			Content: "e", Term: "f",
			Gclid: "g", Gbraid: "h", Wbraid: "i", Fbclid: "j", Msclkid: "k"},
	}

	for _, test := range []struct {
		name  string
		visit model.Visit
	}{
		{"full", full},
		{"empty", model.Visit{}},
	} {
		t.Run(test.name, func(t *testing.T) {
			values := tables.Visits.Columns.AppendValues(nil, &test.visit)

			for i, value := range values {
				if !driver.IsValue(value) {
					t.Errorf("%s is %T, which no driver takes", tables.Visits.Columns[i].Name, value)
				}
				if value == nil {
					t.Errorf("%s is NULL", tables.Visits.Columns[i].Name)
				}
			}

			var read model.Visit
			tables.Visits.Columns.Set(&read, values)

			testkit.DeepEqual(t, read, test.visit, "read")
		})
	}
}

// TestEveryFieldHasAColumn checks that every field of a stored row is written.
func TestEveryFieldHasAColumn(t *testing.T) {
	t.Run("visits", func(t *testing.T) { everyFieldHasAColumn(t, tables.Visits.Columns) })
	t.Run("pageviews", func(t *testing.T) { everyFieldHasAColumn(t, tables.Pageviews.Columns) })
	t.Run("engagement", func(t *testing.T) { everyFieldHasAColumn(t, tables.Engagement.Columns) })
	t.Run("transactions", func(t *testing.T) { everyFieldHasAColumn(t, tables.Transactions.Columns) })
	t.Run("captcha_spent", func(t *testing.T) { everyFieldHasAColumn(t, tables.Consumed.Columns) })
}

func everyFieldHasAColumn[Row any](t *testing.T, columns tables.Columns[Row]) {
	t.Helper()

	var zero Row
	empty := columns.AppendValues(nil, &zero)

	for _, field := range fields(reflect.TypeFor[Row](), nil) {
		var row Row
		value := reflect.ValueOf(&row).Elem().FieldByIndex(field.Index)
		fill(t, value)

		if reflect.DeepEqual(columns.AppendValues(nil, &row), empty) {
			t.Errorf("no column holds %s", field.Name)
		}
	}
}

// fields lists the fields of a struct. An embedded struct is replaced with its fields.
func fields(typ reflect.Type, index []int) (all []reflect.StructField) {
	for i := range typ.NumField() {
		field := typ.Field(i)
		field.Index = append(append([]int(nil), index...), i)

		if field.Anonymous || field.Type.Kind() == reflect.Struct {
			all = append(all, fields(field.Type, field.Index)...)
			continue
		}

		all = append(all, field)
	}

	return all
}

// textOf returns a text that a field may have: values of a client that are on no list are not
// stored.
func textOf(field any) string {
	switch field.(type) {
	case model.Browser:
		return string(model.Chrome)
	case model.System:
		return string(model.Windows)
	case model.Device:
		return string(model.Phone)
	}
	return "DE"
}

// fill sets a field to a value other than its zero value.
func fill(t *testing.T, value reflect.Value) {
	t.Helper()

	switch value.Kind() {
	case reflect.Int16, reflect.Int32, reflect.Int64:
		value.SetInt(1)
	case reflect.Bool:
		value.SetBool(true)
	case reflect.String:
		value.SetString(textOf(value.Interface()))
	case reflect.Slice:
		element := reflect.New(value.Type().Elem()).Elem()
		value.Set(reflect.Append(value, element))
	case reflect.Array:
		value.Index(0).SetUint(1)
	default:
		t.Fatalf("a field of kind %v", value.Kind())
	}
}

// TestEventValue checks that an event without a currency has no value.
func TestEventValue(t *testing.T) {
	for _, test := range []struct {
		event model.Event
		want  driver.Value
	}{
		{model.Event{Value: 5, Currency: "EUR"}, int64(5)},
		{model.Event{Currency: "EUR"}, int64(0)},
		{model.Event{Value: 5}, nil},
	} {
		values := tables.Events.Columns.AppendValues(nil, &test.event)
		for i, column := range tables.Events.Columns {
			if column.Name == "value" && values[i] != test.want {
				t.Errorf("%+v has the value %v, want %v", test.event, values[i], test.want)
			}
		}
	}
}

// TestWithin checks that columns of a field read and write that field of the row.
func TestWithin(t *testing.T) {
	type row struct {
		key  model.ConsumedKey
		note string
	}

	columns := tables.Within(func(r *row) *model.ConsumedKey { return &r.key }, tables.Consumed.Columns).
		With(tables.Text("note", func(r *row) *string { return &r.note }))

	want := row{model.ConsumedKey{AccountID: 1, IssuedAt: 2, ID: [16]byte{3}}, "n"}
	var got row
	columns.Set(&got, columns.AppendValues(nil, &want))

	testkit.Equal(t, got, want, "read")

	arrays := columns.Arrays([]row{want, {}}, 1)
	if ids, ok := arrays[2].([][]byte); !ok || !bytes.Equal(ids[0], want.key.ID[:]) || cap(arrays) < 5 {
		t.Errorf("arrays %v", arrays)
	}
	testkit.Equal(t, columns.List("k."), "k.account_id, k.issued_at, k.id, k.note", "list")
}
