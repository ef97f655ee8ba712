package history

import (
	"math/rand/v2"

	"github.com/tallygate/tallygate/dataplane/analytics/channel"
	"github.com/tallygate/tallygate/db/model"
)

// weighted is a value with its share among others.
type weighted[T any] struct {
	weight int
	value  T
}

// pick returns one of the values, in proportion to the weights.
func pick[T any](r *rand.Rand, list []weighted[T]) T {
	var sum int
	for _, w := range list {
		sum += w.weight
	}

	n := r.IntN(sum)
	for _, w := range list {
		if n -= w.weight; n < 0 {
			return w.value
		}
	}

	return list[len(list)-1].value
}

// source is how visitors come to the shop.
type source struct {
	referrer string // host and path
	host     string // of the referrer
	campaign model.Campaign
	entries  []weighted[page] // where they arrive
}

// attribution returns what the service stores of a visit from the source.
func (s *source) attribution() (referrer string, c model.Campaign, ch model.Channel) {
	return s.referrer, channel.Complete(s.campaign), channel.Of(s.campaign, s.host)
}

// page is a kind of page, between which visitors move.
type page uint8

const (
	home page = iota
	list
	product
	cart
	checkout
	thanks
	guide
	about
	left // the visitor leaves
)

// next lists where visitors go from each page.
var next = map[page][]weighted[page]{
	home:     {{34, list}, {14, product}, {10, guide}, {6, about}, {36, left}},
	list:     {{56, product}, {8, home}, {6, list}, {30, left}},
	product:  {{22, product}, {14, list}, {16, cart}, {4, guide}, {44, left}},
	cart:     {{52, checkout}, {18, list}, {30, left}},
	checkout: {{62, thanks}, {8, cart}, {30, left}},
	thanks:   {{10, home}, {90, left}},
	guide:    {{20, product}, {16, list}, {10, guide}, {54, left}},
	about:    {{22, home}, {14, list}, {64, left}},
}

// item is a product of the shop.
type item struct {
	id, name string
	price    model.Money
}

const euro = model.Money(1_000_000)

var products = []weighted[item]{
	{30, item{id: "kettle", name: "Kettle", price: 39_900_000}},
	{22, item{id: "teapot", name: "Teapot", price: 24 * euro}},
	{14, item{id: "cup-set", name: "Set of four cups", price: 29_500_000}},
	{12, item{id: "assam", name: "Assam, 250 g", price: 9_800_000}},
	{10, item{id: "sencha", name: "Sencha, 100 g", price: 12_400_000}},
	{7, item{id: "strainer", name: "Tea strainer", price: 6_500_000}},
	{5, item{id: "thermometer", name: "Thermometer", price: 14_900_000}},
}

var (
	lists  = []weighted[string]{{6, "/shop"}, {2, "/shop/teas"}, {2, "/shop/pots"}, {1, "/shop/gifts"}}
	guides = []weighted[string]{
		{5, "/guide/brewing-temperatures"}, {3, "/guide/descale-a-kettle"}, {2, "/guide/loose-leaf-or-bags"}, {1, "/guide"},
	}
	abouts = []weighted[string]{{3, "/about"}, {2, "/contact"}, {2, "/delivery"}, {1, "/imprint"}}

	languages = []weighted[string]{{52, "de"}, {29, "en"}, {8, "fr"}, {6, "nl"}, {3, "pl"}, {2, "it"}}
	widths    = []weighted[int]{{46, 390}, {4, 600}, {7, 820}, {6, 1024}, {14, 1366}, {15, 1536}, {8, 1920}}
	colours   = []weighted[string]{{5, "black"}, {3, "steel"}, {2, "copper"}}
	places    = []weighted[string]{{6, "footer"}, {3, "guide"}, {2, "checkout"}}
	outbound  = []weighted[string]{{3, "www.instagram.com"}, {2, "www.youtube.com"}, {1, "maps.example"}}
)

// Where visitors of a source arrive.
var (
	atHome  = []weighted[page]{{70, home}, {20, list}, {10, product}}
	atText  = []weighted[page]{{55, guide}, {25, product}, {20, home}}
	atGoods = []weighted[page]{{60, product}, {40, list}}
)

// everyday lists the sources of an ordinary day.
var everyday = []weighted[source]{
	{30, source{entries: atHome}},
	{26, source{referrer: "www.google.com/", host: "www.google.com", entries: atText}},
	{6, source{referrer: "www.bing.com/", host: "www.bing.com", entries: atText}},
	{4, source{referrer: "duckduckgo.com/", host: "duckduckgo.com", entries: atText}},
	{9, source{referrer: "www.google.com/", host: "www.google.com", entries: atGoods, campaign: model.Campaign{
		Source: "google", Medium: "cpc", Name: "kettles", Term: "electric kettle", Gclid: "demo",
	}}},
	{6, source{referrer: "www.instagram.com/", host: "www.instagram.com", entries: atGoods}},
	{4, source{referrer: "www.youtube.com/", host: "www.youtube.com", entries: atGoods}},
	{4, source{referrer: "www.facebook.com/", host: "www.facebook.com", entries: atGoods, campaign: model.Campaign{
		Source: "facebook", Medium: "paid_social", Name: "gift ideas", Content: "video a", Fbclid: "demo",
	}}},
	{5, source{referrer: "teablog.example/kettles-compared", host: "teablog.example", entries: atGoods}},
	{3, source{referrer: "forum.example/thread/841", host: "forum.example", entries: atText}},
	{3, source{campaign: model.Campaign{Source: "partner", Medium: "affiliate", Name: "tea club"}, entries: atGoods}},
}

// newsletter and offer are the sources of the days with a campaign.
var (
	newsletter = source{entries: atGoods, campaign: model.Campaign{
		Source: "newsletter", Medium: "email", Name: "autumn teas",
	}}
	offer = source{entries: atGoods, campaign: model.Campaign{
		Source: "google", Medium: "cpc", Name: "kettle week", Content: "banner", Gclid: "demo",
	}}
)

// path returns the path of a page. A product's page needs its item.
func (p page) path(r *rand.Rand, of *item) string {
	switch p {
	case list:
		return pick(r, lists)
	case product:
		return "/shop/" + of.id
	case cart:
		return "/cart"
	case checkout:
		return "/checkout"
	case thanks:
		return "/checkout/thanks"
	case guide:
		return pick(r, guides)
	case about:
		return pick(r, abouts)
	}
	return "/"
}
