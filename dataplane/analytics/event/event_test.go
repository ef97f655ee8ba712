package event_test

import (
	"errors"
	"fmt"
	"strconv"
	"strings"
	"testing"

	"github.com/tallygate/tallygate/dataplane/analytics/event"
	"github.com/tallygate/tallygate/db/model"
)

// everything are the rules of a site with every setting enabled. It has registered reserved names,
// which must have no effect.
var everything = &event.Rules{
	Registered: map[string]bool{"signup": true, "a": true, strings.Repeat("z", 48): true, "pageview": true, "engagement": true},
	Automatic:  true, SiteSearch: true, Ecommerce: true,
	Domains: []string{"shop.example", "xn--bcher-kva.example"},
}

// but returns everything with one change.
func but(change func(*event.Rules)) *event.Rules {
	r := *everything
	change(&r)
	return &r
}

// Contract, sections 2 and 7: the names that a site accepts.
func TestNames(t *testing.T) {
	allReserved := map[string]bool{}
	for _, name := range []string{
		"outbound_click", "file_download", "scroll", "site_search", "view_item", "add_to_cart", "begin_checkout", "purchase", "refund",
		"pageview", "engagement", "Signup", "", "sign up",
	} {
		allReserved[name] = true
	}

	const item, sale = `{"item_id":"1"}`, `{"transaction_id":"1","value":1,"currency":"EUR"}`
	for _, test := range []struct {
		rule, name, properties string
		rules                  *event.Rules
		want                   error
	}{
		{"registered", "signup", "", everything, nil},
		{"name of 1 character", "a", "", everything, nil},
		{"name of 48 characters", strings.Repeat("z", 48), "", everything, nil},
		{"name of 49 characters", strings.Repeat("z", 49), "", everything, event.ErrBad},
		{"not registered", "sign_up", "", everything, event.ErrUnknown},
		{"nothing is registered", "signup", "", &event.Rules{}, event.ErrUnknown},
		{"registered names match whole", "signu", "", everything, event.ErrUnknown},
		{"absent", "", "", everything, event.ErrBad},
		{"capital", "Signup", "", everything, event.ErrBad},
		{"space", "sign up", "", everything, event.ErrBad},
		{"control character", "signup\x00", "", everything, event.ErrBad},
		{"form counts before registration", "Signup", "", &event.Rules{Registered: allReserved}, event.ErrBad},
		{"pageview is no event", "pageview", "", everything, event.ErrUnknown},
		{"engagement is no event", "engagement", "", everything, event.ErrUnknown},

		{"outbound_click without registration", "outbound_click", `{"host":"x.example"}`, everything, nil},
		{"file_download without registration", "file_download", "", everything, nil},
		{"scroll without registration", "scroll", "", everything, nil},
		{"site_search without registration", "site_search", "", everything, nil},
		{"outbound_click turned off", "outbound_click", "", but(func(r *event.Rules) { r.Automatic = false }), event.ErrUnknown},
		{"file_download turned off", "file_download", "", but(func(r *event.Rules) { r.Automatic = false }), event.ErrUnknown},
		{"scroll turned off", "scroll", "", but(func(r *event.Rules) { r.Automatic = false }), event.ErrUnknown},
		{"site_search turned off", "site_search", "", but(func(r *event.Rules) { r.Automatic = false }), event.ErrUnknown},
		{"Measure site search off", "site_search", "", but(func(r *event.Rules) { r.SiteSearch = false }), event.ErrUnknown},
		{"Measure site search off leaves scroll", "scroll", "", but(func(r *event.Rules) { r.SiteSearch = false }), nil},
		{"automatic events off leave own events", "signup", "", but(func(r *event.Rules) { r.Automatic = false }), nil},

		{"view_item without registration", "view_item", item, everything, nil},
		{"add_to_cart without registration", "add_to_cart", item, everything, nil},
		{"begin_checkout without registration", "begin_checkout", sale, everything, nil},
		{"purchase without registration", "purchase", sale, everything, nil},
		{"refund without registration", "refund", sale, everything, nil},
		{"Measure e-commerce off: view_item", "view_item", item, but(func(r *event.Rules) { r.Ecommerce = false }), event.ErrUnknown},
		{"Measure e-commerce off: add_to_cart", "add_to_cart", item, but(func(r *event.Rules) { r.Ecommerce = false }), event.ErrUnknown},
		{"Measure e-commerce off: begin_checkout", "begin_checkout", sale, but(func(r *event.Rules) { r.Ecommerce = false }), event.ErrUnknown},
		{"Measure e-commerce off: purchase", "purchase", sale, but(func(r *event.Rules) { r.Ecommerce = false }), event.ErrUnknown},
		{"Measure e-commerce off: refund", "refund", sale, but(func(r *event.Rules) { r.Ecommerce = false }), event.ErrUnknown},
		{"Measure e-commerce off counts before bad fields", "purchase", "", but(func(r *event.Rules) { r.Ecommerce = false }), event.ErrUnknown},

		{"registering does not allow outbound_click", "outbound_click", "", &event.Rules{Registered: allReserved}, event.ErrUnknown},
		{"registering does not allow site_search", "site_search", "", &event.Rules{Registered: allReserved, Automatic: true}, event.ErrUnknown},
		{"registering does not allow purchase", "purchase", sale, &event.Rules{Registered: allReserved}, event.ErrUnknown},
	} {
		t.Run(test.rule, func(t *testing.T) {
			t.Parallel()
			got, err := event.Check(test.name, bytesOf(test.properties), test.rules)
			if err != test.want {
				t.Fatalf("Check(%q): %v, want %v", test.name, err, test.want)
			}
			if err == nil && got.Name != test.name {
				t.Errorf("Check(%q) is named %q", test.name, got.Name)
			}
			if err != nil && got != (event.Accepted{}) {
				t.Errorf("Check(%q) refuses and returns %+v", test.name, got)
			}
		})
	}
}

// bytesOf returns the properties as a caller passes them: nil without properties.
func bytesOf(properties string) []byte {
	if properties == "" {
		return nil
	}
	return []byte(properties)
}

// Contract, section 2, "Custom event", and section 8, "event properties".
func TestCustom(t *testing.T) {
	// longest is an object of exactly 4,096 bytes.
	longest := `{"text":"` + strings.Repeat("x", 4_096-len(`{"text":""}`)) + `"}`
	for _, test := range []struct{ rule, properties, want string }{
		{"absent", "", ""},
		{"an object", `{"plan":"pro","seats":3,"trial":true,"coupon":null}`, `{"plan":"pro","seats":3,"trial":true,"coupon":null}`},
		{"empty object", `{}`, ""},
		{"white space goes", " {\n\t\"a\" : [ 1 , 2 ] } ", `{"a":[1,2]}`},
		{"order of keys stays", `{"z":1,"a":2,"m":3}`, `{"z":1,"a":2,"m":3}`},
		{"numbers as written", `{"a":1.50,"b":1e2,"c":-0,"d":12345678901234567890.10}`, `{"a":1.50,"b":1e2,"c":-0,"d":12345678901234567890.10}`},
		{"lists and objects", `{"a":[{"b":[]},"c"],"d":{}}`, `{"a":[{"b":[]},"c"],"d":{}}`},
		{"a string", `"text"`, ""},
		{"a number", `5`, ""},
		{"null", `null`, ""},
		{"true", `true`, ""},
		{"a list", `[{"a":1}]`, ""},
		{"not JSON", `{"a":`, ""},
		{"something after the object", `{"a":1}{"b":2}`, ""},
		{"the last of a key that came twice", `{"a":1,"b":2,"a":3}`, `{"b":2,"a":3}`},
		{"the last of a key that came twice, once escaped", `{"a":1,"\u0061":2}`, `{"a":2}`},
		{"the last of a key that came twice below", `{"a":[{"b":1,"b":[2],"b":{}}],"c":1}`, `{"a":[{"b":{}}],"c":1}`},
		{"the last of a key that came three times", `{"a":1,"a":{"b":1},"a":2,"b":3}`, `{"a":2,"b":3}`},
		{"the last of each of 40 keys that came twice", twice(40), ones(40)},
		{"keys that are equal but for NUL", `{"a":1,"a\u0000":2}`, `{"a":1,"a` + "\ufffd" + `":2}`},
		{
			rule: "keys that are equal but for NUL and U+FFFD", properties: `{"a\u0000":1,"a\ufffd":2,"a\u0000":3}`,
			want: `{"a` + "\ufffd\ufffd" + `":2,"a` + "\ufffd" + `":3}`,
		},
		{"keys that are equal but for half surrogates", `{"\ud800":1,"\ud801":2,"\ud800":3}`, `{"` + "\ufffd\ufffd" + `":2,"` + "\ufffd" + `":3}`},
		{"as many keys as may become equal", halves(8), `{"` + "\ufffd" + `":0,"` + "\ufffd\ufffd" + `":1,"` + strings.Repeat("\ufffd", 3) + `":2,"` +
			strings.Repeat("\ufffd", 4) + `":3,"` + strings.Repeat("\ufffd", 5) + `":4,"` + strings.Repeat("\ufffd", 6) + `":5,"` +
			strings.Repeat("\ufffd", 7) + `":6,"` + strings.Repeat("\ufffd", 8) + `":7}`},
		{"more keys than may become equal", halves(9), ""},
		{"keys apart in case", `{"a":1,"A":2}`, `{"a":1,"A":2}`},
		{"escaped NUL in a value", `{"a":"x\u0000y"}`, `{"a":"x` + "\ufffd" + `y"}`},
		{"escaped NUL in a key", `{"x\u0000y":1}`, `{"x` + "\ufffd" + `y":1}`},
		{"escaped control characters", `{"a":"1\n2\t3\r4\b5\f6\u001f7\u007f8"}`, `{"a":"1\n2\t3\r4\b5\f6\u001f7` + "\x7f" + `8"}`},
		{"control characters below", `{"a":[{"b\u0001\n":"\u0002c"}]}`, `{"a":[{"b\u0001\n":"\u0002c"}]}`},
		{"a raw control character is no JSON", "{\"a\":\"\x01\"}", ""},
		{"a raw DEL", "{\"a\":\"x\x7fy\"}", "{\"a\":\"x\x7fy\"}"},
		{"text with an escaped \\u0000", `{"a":"\\u0000"}`, `{"a":"\\u0000"}`},
		{"quotes and backslashes", `{"a":"\"\\\/"}`, `{"a":"\"\\/"}`},
		{"escaped letters", `{"a":"\u00fc\ud83d\ude00"}`, `{"a":"ü😀"}`},
		{"invalid UTF-8", "{\"a\":\"\xff\"}", `{"a":"` + "\ufffd" + `"}`},
		{"half of a surrogate pair", `{"a":"\ud83d"}`, `{"a":"` + "\ufffd" + `"}`},
		{"markup stays", `{"a":"<b>&'</b>"}`, `{"a":"<b>&'</b>"}`},
		{"depth 64", nested(64), nested(64)},
		{"depth 65", nested(65), ""},
		{"depth 65 of lists", `{"a":` + strings.Repeat("[", 64) + strings.Repeat("]", 64) + `}`, ""},
		{"the deepest that 4,096 bytes can hold", `{"a":` + strings.Repeat("[", 2_045) + strings.Repeat("]", 2_045) + `}`, ""},
		{"4,096 bytes", longest, longest},
		{"4,097 bytes", strings.Replace(longest, "x", "xx", 1), ""},
		{"4,096 bytes that grow when repaired", strings.Replace(longest, "x", "\xff", 1), ""},
		{"4,096 bytes and white space", strings.Replace(longest, "{", "{ \n", 1), longest},
		{"escaped letters count as UTF-8", `{"a":"` + strings.Repeat(`\u00e9`, 1_000) + `"}`, `{"a":"` + strings.Repeat("é", 1_000) + `"}`},
		{
			rule:       "4,096 bytes of umlauts, escaped",
			properties: `{"ab":"` + strings.Repeat(`\u00e9`, (4_096-9)/2) + `x"}`,
			want:       `{"ab":"` + strings.Repeat("é", (4_096-9)/2) + `x"}`,
		},
		{"4,097 bytes of umlauts, escaped", `{"a":"` + strings.Repeat(`\u00e9`, (4_096-8)/2) + `x"}`, ""},
		{"values that came again do not count", strings.Replace(longest, "{", `{"text":1,`, 1), longest},
		{"a number beyond a double", `{"a":1e400,"b":[-1E+309],"c":1.7e308}`, `{"a":"1e400","b":["-1E+309"],"c":1.7e308}`},
		{
			rule: "a number that a double takes for 0", properties: `{"a":1e-400,"b":0e-400,"c":-0.0e999,"d":5e-324}`,
			want: `{"a":"1e-400","b":0e-400,"c":-0.0e999,"d":5e-324}`,
		},
		{"a number of 400 digits", `{"a":` + strings.Repeat("9", 400) + `}`, `{"a":"` + strings.Repeat("9", 400) + `"}`},
		{"a number of 400 decimals", `{"a":0.` + strings.Repeat("9", 400) + `}`, `{"a":0.` + strings.Repeat("9", 400) + `}`},
		{"4,097 bytes, not JSON", strings.Repeat("[", 4_097), ""},
		{"e-commerce keys mean nothing here", `{"value":"x","currency":5,"transaction_id":null}`, `{"value":"x","currency":5,"transaction_id":null}`},
	} {
		t.Run(test.rule, func(t *testing.T) {
			t.Parallel()
			got, err := event.Check("signup", bytesOf(test.properties), everything)
			if want := (event.Accepted{Name: "signup", Properties: test.want}); err != nil || got != want {
				t.Errorf("Check(%.80q) = %+v, %v\nwant %+v", test.properties, got, err, want)
			}
		})
	}
}

// twice returns an object with n keys, each with the value 0 and then 1; ones is the same with each
// key once.
func twice(n int) string {
	return strings.TrimSuffix(strings.ReplaceAll(ones(n), ":1", ":0"), "}") + "," + ones(n)[1:]
}

func ones(n int) string {
	var keys []string
	for i := range n {
		keys = append(keys, fmt.Sprintf(`"key%d":1`, i))
	}
	return "{" + strings.Join(keys, ",") + "}"
}

// halves returns an object whose n keys are different half surrogates.
func halves(n int) string {
	var keys []string
	for i := range n {
		keys = append(keys, fmt.Sprintf(`"\ud8%02x":%d`, i, i))
	}
	return "{" + strings.Join(keys, ",") + "}"
}

// nested returns an object of the given depth.
func nested(depth int) string {
	return strings.Repeat(`{"a":`, depth-1) + `{}` + strings.Repeat(`}`, depth-1)
}

// Contract, section 2, "Automatic events": properties are fixed, any other property is removed.
func TestAutomatic(t *testing.T) {
	for _, test := range []struct{ rule, name, properties, want string }{
		{"outbound_click: host", "outbound_click", `{"host":"partner.example"}`, `{"host":"partner.example"}`},
		{
			rule: "outbound_click: others go", name: "outbound_click",
			properties: `{"url":"https://partner.example/me","host":"partner.example","text":"Jane"}`,
			want:       `{"host":"partner.example"}`,
		},
		{"outbound_click: normalised", "outbound_click", `{"host":"WWW.Partner.Example.:8443"}`, `{"host":"www.partner.example"}`},
		{"outbound_click: internationalised", "outbound_click", `{"host":"bücher.test"}`, `{"host":"xn--bcher-kva.test"}`},
		{"outbound_click: an address", "outbound_click", `{"host":"192.0.2.1"}`, `{"host":"192.0.2.1"}`},
		{"outbound_click: path goes", "outbound_click", `{"host":"partner.example/users/jane?x"}`, `{"host":"partner.example"}`},
		{"outbound_click: an address", "outbound_click", `{"host":"https://Partner.Example:8443/users/jane?x"}`, `{"host":"partner.example"}`},
		{"outbound_click: an address of another scheme", "outbound_click", `{"host":"ftp://partner.example/x"}`, `{"host":"partner.example"}`},
		{"outbound_click: an address without scheme", "outbound_click", `{"host":"//partner.example/x"}`, `{"host":"partner.example"}`},
		{
			rule: "outbound_click: an address within a path", name: "outbound_click",
			properties: `{"host":"partner.example/to?https://shop.example/"}`, want: `{"host":"partner.example"}`,
		},
		{"outbound_click: a path", "outbound_click", `{"host":"/pricing"}`, ""},
		{"outbound_click: a mail address", "outbound_click", `{"host":"mailto:jane@partner.example"}`, ""},
		{"outbound_click: an address with credentials", "outbound_click", `{"host":"https://jane:pw@partner.example/"}`, ""},
		{"outbound_click: credentials", "outbound_click", `{"host":"jane:pw@partner.example"}`, ""},
		{"outbound_click: no host", "outbound_click", `{"host":"not a host"}`, ""},
		{"outbound_click: empty", "outbound_click", `{"host":""}`, ""},
		{"outbound_click: wrong type", "outbound_click", `{"host":{"host":"partner.example"}}`, ""},
		{"outbound_click: null", "outbound_click", `{"host":null}`, ""},
		{"outbound_click: look-alike of the own domain", "outbound_click", `{"host":"myshop.example"}`, `{"host":"myshop.example"}`},
		{"outbound_click: own domain as a label", "outbound_click", `{"host":"shop.example.evil.test"}`, `{"host":"shop.example.evil.test"}`},
		{"outbound_click: own parent domain", "outbound_click", `{"host":"example"}`, `{"host":"example"}`},
		{"file_download: file, ext", "file_download", `{"file":"/a/report 2026.pdf","ext":"pdf"}`, `{"file":"/a/report 2026.pdf","ext":"pdf"}`},
		{"file_download: order as sent", "file_download", `{"ext":"pdf","file":"a.pdf"}`, `{"ext":"pdf","file":"a.pdf"}`},
		{"file_download: others go", "file_download", `{"ext":"pdf","size":12,"host":"x.example"}`, `{"ext":"pdf"}`},
		{"file_download: wrong types", "file_download", `{"ext":1,"file":["a"]}`, ""},
		{"file_download: as sent", "file_download", `{"file":"a\u0000\n.pdf"}`, `{"file":"a` + "\ufffd" + `\n.pdf"}`},
		{"file_download: cut", "file_download", `{"file":"` + strings.Repeat("f", 2_049) + `","ext":"` + strings.Repeat("e", 17) + `"}`,
			`{"file":"` + strings.Repeat("f", 2_048) + `","ext":"` + strings.Repeat("e", 16) + `"}`},
		{"scroll: percent", "scroll", `{"percent":90}`, `{"percent":90}`},
		{"scroll: 0", "scroll", `{"percent":0}`, `{"percent":0}`},
		{"scroll: 100", "scroll", `{"percent":100}`, `{"percent":100}`},
		{"scroll: one way to write it", "scroll", `{"percent":9.0e1}`, `{"percent":90}`},
		{"scroll: above 100", "scroll", `{"percent":100.1}`, ""},
		{"scroll: below 0", "scroll", `{"percent":-1}`, ""},
		{"scroll: wrong type", "scroll", `{"percent":"90"}`, ""},
		{"scroll: others go", "scroll", `{"percent":90,"path":"/","x":{"y":[]}}`, `{"percent":90}`},
		{"site_search: term", "site_search", `{"term":"red shoes"}`, `{"term":"red shoes"}`},
		{
			rule: "site_search: 100 characters", name: "site_search",
			properties: `{"term":"` + strings.Repeat("ü", 100) + `"}`,
			want:       `{"term":"` + strings.Repeat("ü", 100) + `"}`,
		},
		{
			rule: "site_search: 101 characters are cut", name: "site_search",
			properties: `{"term":"` + strings.Repeat("ü", 101) + `"}`,
			want:       `{"term":"` + strings.Repeat("ü", 100) + `"}`,
		},
		{
			rule: "site_search: made storable before it is cut", name: "site_search",
			properties: `{"term":"\u0000` + strings.Repeat("x", 101) + `"}`,
			want:       `{"term":"` + "\ufffd" + strings.Repeat("x", 99) + `"}`,
		},
		{"site_search: the last of a key that came twice", "site_search", `{"term":"a","term":"b"}`, `{"term":"b"}`},
		{"site_search: wrong type", "site_search", `{"term":7}`, ""},
		{"site_search: others go", "site_search", `{"q":"a","term":"b","results":3}`, `{"term":"b"}`},

		{"key in another case", "site_search", `{"Term":"a"}`, ""},
		{"key with a control character", "site_search", `{"te\nrm":"a"}`, ""},
		{"key twice, once with NUL", "site_search", `{"term":"a","term\u0000":"b"}`, `{"term":"a"}`},
		{"property of another automatic event", "scroll", `{"term":"a","host":"x.example"}`, ""},
		{"absent", "scroll", "", ""},
		{"not an object", "scroll", `[90]`, ""},
		{"not JSON", "scroll", `{"percent":90`, ""},
		{"larger than 4,096 bytes", "scroll", `{"percent":90,"x":"` + strings.Repeat("x", 4_096) + `"}`, ""},
		{"removed properties may be deep", "scroll", `{"x":` + nested(20) + `,"percent":90}`, `{"percent":90}`},
		{"e-commerce keys go too", "scroll", `{"percent":90,"value":5,"currency":"EUR","transaction_id":"1"}`, `{"percent":90}`},
	} {
		t.Run(test.rule, func(t *testing.T) {
			t.Parallel()
			got, err := event.Check(test.name, bytesOf(test.properties), everything)
			if want := (event.Accepted{Name: test.name, Properties: test.want}); err != nil || got != want {
				t.Errorf("Check(%s, %.80q) = %+v, %v\nwant %+v", test.name, test.properties, got, err, want)
			}
		})
	}
}

// Contract, section 2: the site's own domain, its subdomains and the extra domains are not
// outbound.
func TestOwnLinks(t *testing.T) {
	for _, test := range []struct{ rule, properties string }{
		{"the domain", `{"host":"shop.example"}`},
		{"a subdomain", `{"host":"www.shop.example"}`},
		{"capitals, dot and port", `{"host":"Shop.Example.:443"}`},
		{"an extra domain", `{"host":"bücher.example"}`},
		{"an extra domain's subdomain, encoded", `{"host":"a.xn--bcher-kva.example"}`},
		{"an address", `{"host":"https://shop.example/"}`},
		{"an address with a port and a path", `{"host":"HTTP://www.Shop.example:8080/a?b#c"}`},
		{"an address with one slash", `{"host":"https:/shop.example/"}`},
		{"an address without scheme", `{"host":"//shop.example/a"}`},
		{"properties too large to keep", `{"host":"shop.example","x":"` + strings.Repeat("x", 4_096) + `"}`},
	} {
		t.Run(test.rule, func(t *testing.T) {
			t.Parallel()
			got, err := event.Check("outbound_click", []byte(test.properties), everything)
			if !errors.Is(err, event.ErrOwnLink) || got != (event.Accepted{}) {
				t.Errorf("Check(%.80q) = %+v, %v; want ErrOwnLink", test.properties, got, err)
			}
		})
	}

	// The host of one event has no effect on the next.
	if _, err := event.Check("scroll", nil, everything); err != nil {
		t.Errorf("scroll after an own link: %v", err)
	}
}

// Contract, section 2, "E-commerce events": required and optional fields of each event.
func TestEcommerceRows(t *testing.T) {
	valid := map[string]string{
		"item_id": `"sku-1"`, "item_name": `"Shoe"`, "price": `19.99`, "quantity": `2`,
		"transaction_id": `"T-1"`, "value": `39.98`, "currency": `"EUR"`, "items": `[{"item_id":"sku-1"}]`,
	}

	// unreadable values of each field: a required one refuses the event, an optional one is left
	// out.
	unreadable := map[string][]string{
		"item_id":        {`""`, `" \n"`, `["a"]`, `{}`, `true`, `"` + strings.Repeat("i", 201) + `"`},
		"item_name":      {`["a"]`, `false`, `{}`},
		"price":          {`"19.99"`, `-1`, `true`, `{}`, `1e13`, `1e400`, `1e1000`, `1000000000000.01`},
		"quantity":       {`"2"`, `-1`, `1.5`, `[]`, `1000001`, `true`},
		"transaction_id": {`""`, `[]`, `{}`, `"\n"`, `true`, `"` + strings.Repeat("t", 129) + `"`},
		"value":          {`"39.98"`, `-0.01`, `true`, `[1]`, `{}`, `1000000000000.01`, `1e13`, `1e400`, `1e1000`, `""`},
		"currency":       {`"EU"`, `"EURO"`, `""`, `978`, `"€€€"`, `"E R"`, `"12A"`, `"éé"`, `["EUR"]`},
		"items":          {`{}`, `"a"`, `5`, `true`},
	}

	for _, row := range []struct {
		name               string
		required, optional []string
	}{
		{"view_item", []string{"item_id"}, []string{"item_name", "price", "quantity"}},
		{"add_to_cart", []string{"item_id"}, []string{"item_name", "price", "quantity"}},
		{"begin_checkout", []string{"value", "currency"}, []string{"items"}},
		{"purchase", []string{"transaction_id", "value", "currency"}, []string{"items"}},
		{"refund", []string{"transaction_id", "value", "currency"}, []string{"items"}},
	} {
		// object returns the row's event with all fields. change replaces a field's value, or
		// removes the field if it is empty.
		object := func(fields []string, change map[string]string) string {
			var members []string
			for _, f := range fields {
				v, changed := change[f]
				if !changed {
					v = valid[f]
				}
				if v != "" {
					members = append(members, strconv.Quote(f)+":"+v)
				}
			}

			return "{" + strings.Join(members, ",") + "}"
		}

		check := func(rule, properties string, want error) {
			t.Helper()
			if got, err := event.Check(row.name, bytesOf(properties), everything); !errors.Is(err, want) {
				t.Errorf("%s, %s: Check(%s) = %+v, %v; want %v", row.name, rule, properties, got, err, want)
			}
		}

		all := append(append([]string{}, row.required...), row.optional...)
		check("all fields", object(all, nil), nil)
		check("required fields", object(row.required, nil), nil)
		check("no properties", "", event.ErrBad)
		check("empty object", "{}", event.ErrBad)
		check("a list", "["+object(all, nil)+"]", event.ErrBad)
		check("null", "null", event.ErrBad)
		check("not JSON", strings.TrimSuffix(object(all, nil), "}"), event.ErrBad)
		check("something after", object(all, nil)+"1", event.ErrBad)

		for _, f := range row.required {
			for _, v := range append(unreadable[f], "") {
				_, err := event.Check(row.name, bytesOf(object(all, map[string]string{f: v})), everything)
				if named, ok := errors.AsType[*model.Error](err); !ok || named.Field != f || named.Code != "bad_event" {
					t.Errorf("%s with %s %q: %+v", row.name, f, v, err)
				}
			}

			check("without "+f, object(all, map[string]string{f: ""}), event.ErrBad)
			check("null "+f, object(all, map[string]string{f: "null"}), event.ErrBad)
			check(f+" in another case", strings.Replace(object(all, nil), f, strings.ToUpper(f), 1), event.ErrBad)
			check(f+" twice, the last one unreadable", strings.TrimSuffix(object(all, nil), "}")+`,"`+f+`":[]}`, event.ErrBad)
			check(f+" twice, the last one readable", strings.Replace(object(all, nil), "{", `{"`+f+`":[],`, 1), nil)
			check(f+" with a newline", strings.Replace(object(all, nil), f, f[:1]+`\n`+f[1:], 1), event.ErrBad)
			check(f+" with NUL", strings.Replace(object(all, nil), f+`"`, f+`\u0000"`, 1), event.ErrBad)

			for _, v := range unreadable[f] {
				check("unreadable "+f, object(all, map[string]string{f: v}), event.ErrBad)
			}
		}

		for _, f := range row.optional {
			without, err := event.Check(row.name, bytesOf(object(all, map[string]string{f: ""})), everything)
			if err != nil {
				t.Fatalf("%s without %s: %v", row.name, f, err)
			}

			for _, v := range append(unreadable[f], "null") {
				properties := object(all, map[string]string{f: v})
				if got, err := event.Check(row.name, bytesOf(properties), everything); err != nil || got != without {
					t.Errorf("%s: Check(%s) = %+v, %v; want %+v, as without %s", row.name, properties, got, err, without, f)
				}
			}
		}
	}
}

// The stored form of each e-commerce event.
func TestEcommerce(t *testing.T) {
	const millionth = model.Money(1)
	sale := func(value string) string { return `{"transaction_id":"T-1","currency":"EUR","value":` + value + `}` }
	saleWith := func(more string) string { return `{"transaction_id":"T-1","currency":"EUR","value":1,` + more + `}` }
	paid := func(value model.Money, properties string) event.Accepted {
		return event.Accepted{Name: "purchase", Value: value, Currency: "EUR", TransactionID: "T-1", Properties: properties}
	}

	manyItems := func(n int) string { return `"items":[` + strings.TrimSuffix(strings.Repeat(`{},`, n), ",") + `]` }
	for _, test := range []struct {
		rule, name, properties string
		want                   event.Accepted
	}{
		{"view_item", "view_item", `{"item_id":"sku-1","item_name":"Shoe","price":19.99,"quantity":2}`,
			event.Accepted{Name: "view_item", Properties: `{"item_id":"sku-1","item_name":"Shoe","price":19.99,"quantity":2}`}},
		{"add_to_cart", "add_to_cart", `{"quantity":1,"item_id":"sku-1"}`,
			event.Accepted{Name: "add_to_cart", Properties: `{"quantity":1,"item_id":"sku-1"}`}},
		{"begin_checkout", "begin_checkout", `{"value":39.98,"currency":"EUR","items":[{"item_id":"sku-1"}]}`,
			event.Accepted{Name: "begin_checkout", Value: 39_980_000, Currency: "EUR", Properties: `{"items":[{"item_id":"sku-1"}]}`}},
		{"purchase", "purchase", `{"transaction_id":"T-1","value":39.98,"currency":"EUR","items":[{"item_id":"sku-1","item_name":"Shoe","price":19.99,"quantity":2}]}`,
			paid(39_980_000, `{"items":[{"item_id":"sku-1","item_name":"Shoe","price":19.99,"quantity":2}]}`)},
		{"purchase without items", "purchase", sale("39.98"), paid(39_980_000, "")},
		{"refund is negative", "refund", sale("39.98"),
			event.Accepted{Name: "refund", Value: -39_980_000, Currency: "EUR", TransactionID: "T-1"}},
		{"refund of nothing", "refund", sale("0"), event.Accepted{Name: "refund", Currency: "EUR", TransactionID: "T-1"}},

		{"value 0", "purchase", sale("0"), paid(0, "")},
		{"value 1e12", "purchase", sale("1e12"), paid(1_000_000_000_000_000_000, "")},
		{"value of 6 decimals", "purchase", sale("0.000001"), paid(millionth, "")},
		{"value of 7 decimals, half to even", "purchase", sale("0.0000025"), paid(2*millionth, "")},
		{"value that no float represents", "purchase", sale("900719925474.099301"), paid(900_719_925_474_099_301, "")},
		{"value with an exponent", "purchase", sale("3998E-2"), paid(39_980_000, "")},
		{"value 1e12 after rounding", "purchase", sale("1000000000000.0000001"), paid(1_000_000_000_000_000_000, "")},
		{"value -0", "purchase", sale("-0"), paid(0, "")},

		{"currency in small letters", "purchase", `{"transaction_id":"T-1","currency":"eUr","value":1}`, paid(1_000_000, "")},
		{"transaction_id of 128 characters", "purchase", `{"transaction_id":"` + strings.Repeat("ü", 128) + `","currency":"EUR","value":1}`,
			event.Accepted{Name: "purchase", Value: 1_000_000, Currency: "EUR", TransactionID: strings.Repeat("ü", 128)}},
		{"transaction_id as sent", "purchase", `{"transaction_id":" T\u0000-1\n","currency":"EUR","value":1}`,
			event.Accepted{Name: "purchase", Value: 1_000_000, Currency: "EUR", TransactionID: " T\ufffd-1\n"}},
		{"transaction_id is a number", "purchase", `{"transaction_id":1001,"currency":"EUR","value":1}`,
			event.Accepted{Name: "purchase", Value: 1_000_000, Currency: "EUR", TransactionID: "1001"}},
		{"transaction_id is a large number", "purchase", `{"transaction_id":12345678901234567890123,"currency":"EUR","value":1}`,
			event.Accepted{Name: "purchase", Value: 1_000_000, Currency: "EUR", TransactionID: "12345678901234567890123"}},
		{"item_id is a number", "add_to_cart", `{"item_id":7}`, event.Accepted{Name: "add_to_cart", Properties: `{"item_id":"7"}`}},
		{
			rule: "item_name is a number", name: "view_item", properties: `{"item_id":"1","item_name":4711}`,
			want: event.Accepted{Name: "view_item", Properties: `{"item_id":"1","item_name":"4711"}`},
		},
		{
			rule: "item_name as sent", name: "view_item", properties: `{"item_id":"1","item_name":"a\tb"}`,
			want: event.Accepted{Name: "view_item", Properties: `{"item_id":"1","item_name":"a\tb"}`},
		},
		{"item_id of 200 characters", "view_item", `{"item_id":"` + strings.Repeat("ü", 200) + `"}`,
			event.Accepted{Name: "view_item", Properties: `{"item_id":"` + strings.Repeat("ü", 200) + `"}`}},
		{"item_name is cut to 200 characters", "view_item", `{"item_id":"1","item_name":"` + strings.Repeat("ü", 201) + `"}`,
			event.Accepted{Name: "view_item", Properties: `{"item_id":"1","item_name":"` + strings.Repeat("ü", 200) + `"}`}},
		{
			rule: "item_name may be empty", name: "view_item", properties: `{"item_id":"1","item_name":""}`,
			want: event.Accepted{Name: "view_item", Properties: `{"item_id":"1","item_name":""}`},
		},
		{
			rule: "price to 6 decimals", name: "view_item", properties: `{"item_id":"1","price":0.12345678}`,
			want: event.Accepted{Name: "view_item", Properties: `{"item_id":"1","price":0.123457}`},
		},
		{
			rule: "price 1e12", name: "view_item", properties: `{"item_id":"1","price":1e12}`,
			want: event.Accepted{Name: "view_item", Properties: `{"item_id":"1","price":1000000000000}`},
		},
		{"quantity 0", "view_item", `{"item_id":"1","quantity":0}`, event.Accepted{Name: "view_item", Properties: `{"item_id":"1","quantity":0}`}},
		{
			rule: "quantity 1,000,000", name: "view_item", properties: `{"item_id":"1","quantity":1e6}`,
			want: event.Accepted{Name: "view_item", Properties: `{"item_id":"1","quantity":1000000}`},
		},
		{
			rule: "quantity 2.0 is whole", name: "view_item", properties: `{"item_id":"1","quantity":2.0}`,
			want: event.Accepted{Name: "view_item", Properties: `{"item_id":"1","quantity":2}`},
		},
		{
			rule: "an optional field that is null", name: "view_item",
			properties: `{"item_id":"1","price":null,"item_name":null}`,
			want:       event.Accepted{Name: "view_item", Properties: `{"item_id":"1"}`},
		},

		{
			rule: "other keys of an item go", name: "purchase",
			properties: saleWith(`"items":[{"item_id":"1","brand":"b","x":{"y":[1]},"price":2}]`),
			want:       paid(1_000_000, `{"items":[{"item_id":"1","price":2}]}`),
		},
		{"an item's null fields go", "purchase", saleWith(`"items":[{"item_id":null,"price":null}]`), paid(1_000_000, `{"items":[{}]}`)},
		{"unreadable details of an item go", "purchase",
			saleWith(`"items":[{"item_id":5,"item_name":5,"price":-5,"quantity":1.5},{"item_id":"","price":"2"},{"item_id":"2","item_name":[],"quantity":3}]`),
			paid(1_000_000, `{"items":[{"item_id":"5","item_name":"5"},{},{"item_id":"2","quantity":3}]}`)},
		{
			rule: "what is no item goes", name: "purchase",
			properties: saleWith(`"items":[5,{"item_id":"1"},null,[{"item_id":"2"}],"a"]`),
			want:       paid(1_000_000, `{"items":[{"item_id":"1"}]}`),
		},
		{
			rule: "the last of 300 items is none", name: "purchase",
			properties: saleWith(strings.Replace(manyItems(300), "{}]", "5]", 1)),
			want:       paid(1_000_000, "{"+manyItems(299)+"}"),
		},
		{
			rule: "an item's field with NUL is another one", name: "purchase",
			properties: saleWith(`"items":[{"price":1,"price\u0000":2,"pri\nce":1}]`),
			want:       paid(1_000_000, `{"items":[{"price":1}]}`),
		},
		{"the last of a field that came twice", "purchase",
			`{"value":1,"transaction_id":"T-0","currency":"EUR","items":[{"price":1,"price":2}],"transaction_id":"T-1","value":2}`,
			paid(2_000_000, `{"items":[{"price":2}]}`)},
		{"no items", "purchase", saleWith(`"items":[]`), paid(1_000_000, `{"items":[]}`)},
		{"items are null", "purchase", saleWith(`"items":null`), paid(1_000_000, "")},
		{"as many items as fit", "purchase", saleWith(manyItems(1_300)), paid(1_000_000, "{"+manyItems(1_300)+"}")},
		{"more items than 4,096 bytes hold", "purchase", saleWith(manyItems(1_400)), paid(1_000_000, "")},

		{
			rule: "other properties as sent", name: "purchase",
			properties: saleWith(`"coupon":"X\n","tax":1.50,"z":{"a":[1, 2]}`),
			want:       paid(1_000_000, `{"coupon":"X\n","tax":1.50,"z":{"a":[1,2]}}`),
		},
		{"a field with NUL is another property", "purchase", saleWith(`"value\u0000":2`), paid(1_000_000, `{"value`+"\ufffd"+`":2}`)},
		{
			rule: "an item's keys have no meaning in a purchase", name: "purchase",
			properties: saleWith(`"price":"x","item_id":5`), want: paid(1_000_000, `{"price":"x","item_id":5}`),
		},
		{"value and currency have no meaning in view_item", "view_item", `{"item_id":"1","value":5,"currency":"EUR"}`,
			event.Accepted{Name: "view_item", Properties: `{"item_id":"1","value":5,"currency":"EUR"}`}},
		{"other properties too deep", "purchase", saleWith(`"x":` + nested(64)), paid(1_000_000, "")},
		{
			rule: "a field behind what is too deep", name: "purchase",
			properties: `{"x":` + nested(100) + `,"transaction_id":"T-1","currency":"EUR","value":1}`,
			want:       paid(1_000_000, ""),
		},
		{"properties of more than 4,096 bytes", "purchase", saleWith(`"x":"` + strings.Repeat("x", 4_096) + `"`), paid(1_000_000, "")},
		{
			rule: "more than 4,096 bytes before the fields", name: "purchase",
			properties: `{"x":"` + strings.Repeat("x", 4_096) + `","transaction_id":"T-1","currency":"EUR","value":1}`,
			want:       paid(1_000_000, ""),
		},
	} {
		t.Run(test.rule, func(t *testing.T) {
			t.Parallel()
			got, err := event.Check(test.name, []byte(test.properties), everything)
			if err != nil || got != test.want {
				t.Errorf("Check(%s, %.200s) = %+v, %v\nwant %+v", test.name, test.properties, got, err, test.want)
			}
		})
	}

	long := `"x":"` + strings.Repeat("x", 4_096) + `"`
	for _, test := range []struct{ rule, name, properties string }{
		{"too large and unreadable", "purchase", `{"transaction_id":"T-1","currency":"EUR","value":"1",` + long + `}`},
		{"too large and a field missing", "purchase", `{"transaction_id":"T-1","currency":"EUR",` + long + `}`},
		{"too large and not JSON", "purchase", `{"transaction_id":"T-1","currency":"EUR","value":1,` + long},
	} {
		t.Run(test.rule, func(t *testing.T) {
			t.Parallel()
			if got, err := event.Check(test.name, []byte(test.properties), everything); !errors.Is(err, event.ErrBad) {
				t.Errorf("Check(%s, %.200s) = %+v, %v; want bad_event", test.name, test.properties, got, err)
			}
		})
	}
}

var samples = []struct{ name, properties string }{
	{"signup", `{"plan":"pro","seats":3,"source":"pricing page","trial":true}`},
	{"outbound_click", `{"host":"partner.example"}`},
	{"purchase", `{"transaction_id":"T-1001","value":129.95,"currency":"EUR","items":[` +
		`{"item_id":"sku-1","item_name":"Shoe","price":49.95,"quantity":1},{"item_id":"sku-2","item_name":"Coat","price":80,"quantity":1}]}`},
}

func BenchmarkCheck(b *testing.B) {
	for _, sample := range samples {
		b.Run(sample.name, func(b *testing.B) {
			properties := []byte(sample.properties)
			b.ReportAllocs()
			for b.Loop() {
				if _, err := event.Check(sample.name, properties, everything); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}
