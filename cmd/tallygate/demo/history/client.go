package history

import (
	"encoding/binary"
	"math/rand/v2"

	"github.com/tallygate/tallygate/db/model"
)

// Details are what the shop's visits keep of browsers. It has one domain, so hostnames would be
// alike.
var Details = model.List[model.VisitDetail]{model.DetailCountry, model.DetailBrowser, model.DetailSystem, model.DetailDevice}

// clients of phones, tablets and desktops, by what they are used for.
var (
	phones = []weighted[model.Client]{
		{44, model.Client{Browser: model.Safari, System: model.IOS}}, {38, model.Client{Browser: model.Chrome, System: model.Android}},
		{9, model.Client{Browser: model.SamsungInternet, System: model.Android}}, {5, model.Client{Browser: model.InApp, System: model.IOS}},
		{4, model.Client{Browser: model.Firefox, System: model.Android}},
	}
	tablets = []weighted[model.Client]{
		{7, model.Client{Browser: model.Safari, System: model.IOS}}, {3, model.Client{Browser: model.Chrome, System: model.Android}},
	}
	desktops = []weighted[model.Client]{
		{40, model.Client{Browser: model.Chrome, System: model.Windows}}, {17, model.Client{Browser: model.Edge, System: model.Windows}},
		{15, model.Client{Browser: model.Safari, System: model.MacOS}}, {12, model.Client{Browser: model.Firefox, System: model.Windows}},
		{8, model.Client{Browser: model.Chrome, System: model.MacOS}}, {5, model.Client{Browser: model.Firefox, System: model.Linux}},
		{3, model.Client{Browser: model.Opera, System: model.Windows}},
	}
)

// countries are where the speakers of a language are.
var countries = map[string][]weighted[string]{
	"de": {{78, "DE"}, {12, "AT"}, {9, "CH"}, {1, "LI"}}, "en": {{40, "US"}, {35, "GB"}, {12, "IE"}, {8, "CA"}, {5, "AU"}},
	"fr": {{70, "FR"}, {20, "BE"}, {10, "CH"}}, "nl": {{80, "NL"}, {20, "BE"}}, "pl": {{1, "PL"}}, "it": {{9, "IT"}, {1, "CH"}},
}

// newClient returns the client of a person. It has random numbers of its own, by the person.
func newClient(p *person) model.Client {
	r := rand.New(rand.NewPCG(binary.BigEndian.Uint64(p.id[:]), 1))

	list, device := desktops, model.Desktop
	switch {
	case p.width < 768:
		list, device = phones, model.Phone
	case p.width < 992:
		list, device = tablets, model.Tablet
	}

	c := pick(r, list)
	c.Device, c.Country = device, pick(r, countries[p.language])
	return c
}
