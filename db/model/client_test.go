package model_test

import (
	"slices"
	"testing"

	"github.com/tallygate/tallygate/db/model"
	"github.com/tallygate/tallygate/tools/testkit"
)

// TestClientPacks checks the stored form of every value, and that it has no version and no other
// text.
func TestClientPacks(t *testing.T) {
	for packed, want := range map[string]model.Client{
		"":                      {},
		"DEcwd":                 {Country: "DE", Browser: model.Chrome, System: model.Windows, Device: model.Desktop},
		"--f--":                 {Browser: model.Firefox},
		"-----shop.example":     {Host: "shop.example"},
		"LIsipwww.shop.example": {Country: "LI", Browser: model.Safari, System: model.IOS, Device: model.Phone, Host: "www.shop.example"},
	} {
		testkit.Equal(t, want.Pack(), packed, "%+v is stored as", want)
		testkit.Equal(t, model.UnpackClient(packed), want, "%q", packed)
	}

	for _, browser := range model.Browsers {
		for _, system := range model.Systems {
			for _, device := range model.Devices {
				c := model.Client{Browser: browser, System: system, Device: device}
				testkit.Equal(t, model.UnpackClient(c.Pack()), c, "%+v becomes", c)
			}
		}
	}
}

// TestClientRefusesOtherValues checks that a value that is on no list is neither stored nor read.
func TestClientRefusesOtherValues(t *testing.T) {
	foreign := model.Client{Country: "Germany", Browser: "Netscape 4", System: "Windows 11", Device: "fridge"}
	testkit.Equal(t, foreign.Pack(), "-----", "stored as")
	for _, packed := range []string{"D", "QQcw", "QQ?\xff\x00", "de---"} {
		testkit.Equal(t, model.UnpackClient(packed), (model.Client{}), "%q", packed)
	}
}

// TestCountries checks the list of countries.
func TestCountries(t *testing.T) {
	if n := len(model.Countries); n != 250 || !slices.IsSorted(model.Countries) {
		t.Errorf("%d countries, want the 249 of ISO 3166 and XK in order", n)
	}
	for _, code := range model.Countries {
		if !model.IsCountry(code) {
			t.Errorf("%s is no country", code)
		}
	}
	for _, code := range []string{"", "D", "de", "DEU", "UK", "EU", "ZZ", "A1", "\xff\xff", "@@"} {
		if model.IsCountry(code) {
			t.Errorf("%q is a country", code)
		}
	}
}
