package model

import (
	"slices"
	"strings"
)

// Client is what a visit keeps of the browser that opened it, as far as its site asks for it (see
// VisitDetail): coarse values that many visitors share. Empty values are unknown or not kept.
type Client struct {
	Country string // ISO 3166-1 alpha-2, see IsCountry
	Browser Browser
	System  System
	Device  Device
	Host    string // of the page, normalised; one of the site's domains or below one
}

// VisitDetail is a value of Client that a site keeps.
type VisitDetail string

// The details. A new site keeps none.
const (
	DetailCountry  VisitDetail = "COUNTRY"
	DetailBrowser  VisitDetail = "BROWSER"
	DetailSystem   VisitDetail = "SYSTEM"
	DetailDevice   VisitDetail = "DEVICE"
	DetailHostname VisitDetail = "HOSTNAME"
)

// VisitDetails lists every detail.
var VisitDetails = []VisitDetail{DetailCountry, DetailBrowser, DetailSystem, DetailDevice, DetailHostname}

// Browser is a family of browsers, without versions.
type Browser string

// System is a family of operating systems, without versions.
type System string

// Device is a class of devices.
type Device string

// The browsers. Browsers with the same agent have one name: a browser built on Chromium that sends
// Chrome's agent is Chrome.
const (
	Chrome          Browser = "Chrome"
	Safari          Browser = "Safari"
	Firefox         Browser = "Firefox"
	Edge            Browser = "Edge"
	Opera           Browser = "Opera"
	SamsungInternet Browser = "Samsung Internet"
	Brave           Browser = "Brave"
	Vivaldi         Browser = "Vivaldi"
	YandexBrowser   Browser = "Yandex Browser"
	DuckDuckGo      Browser = "DuckDuckGo"
	UCBrowser       Browser = "UC Browser"
	HuaweiBrowser   Browser = "Huawei Browser"
	MiBrowser       Browser = "Mi Browser"
	QQBrowser       Browser = "QQ Browser"
	Whale           Browser = "Whale"
	Silk            Browser = "Silk"
	Explorer        Browser = "Internet Explorer"
	AndroidBrowser  Browser = "Android Browser"
	InApp           Browser = "In-app browser" // a page opened inside another app
	OtherBrowser    Browser = "Other"
)

// The operating systems. iPads are iOS, because many of their browsers send the agent of a Mac or
// of an iPhone.
const (
	Windows     System = "Windows"
	MacOS       System = "macOS"
	Linux       System = "Linux"
	ChromeOS    System = "ChromeOS"
	Android     System = "Android"
	IOS         System = "iOS"
	HarmonyOS   System = "HarmonyOS"
	KaiOS       System = "KaiOS"
	Tizen       System = "Tizen"
	WebOS       System = "webOS"
	OtherSystem System = "Other"
)

// The classes of devices.
const (
	Desktop Device = "desktop"
	Phone   Device = "phone"
	Tablet  Device = "tablet"
	TV      Device = "tv" // also game consoles
)

// unknown is the stored letter of an empty value.
const unknown = '-'

// The stored letters of values. They never change, and new values get new letters.
var (
	browserLetters = letters[Browser]{
		'c': Chrome, 's': Safari, 'f': Firefox, 'e': Edge, 'o': Opera, 'm': SamsungInternet, 'b': Brave, 'v': Vivaldi,
		'y': YandexBrowser, 'd': DuckDuckGo, 'u': UCBrowser, 'h': HuaweiBrowser, 'x': MiBrowser, 'q': QQBrowser,
		'w': Whale, 'k': Silk, 'i': Explorer, 'a': AndroidBrowser, 'p': InApp, 'z': OtherBrowser,
	}
	systemLetters = letters[System]{
		'w': Windows, 'm': MacOS, 'l': Linux, 'c': ChromeOS, 'a': Android, 'i': IOS, 'h': HarmonyOS, 'k': KaiOS,
		't': Tizen, 'o': WebOS, 'z': OtherSystem,
	}
	deviceLetters = letters[Device]{'d': Desktop, 'p': Phone, 't': Tablet, 'v': TV}
)

// letters maps stored letters to values.
type letters[V ~string] [128]V

// of returns the letter of a value; unknown for a value without one.
func (l *letters[V]) of(value V) byte {
	if value != "" {
		if i := slices.Index(l[:], value); i >= 0 {
			return byte(i)
		}
	}
	return unknown
}

// value returns the value of a letter; an empty one for an unknown letter.
func (l *letters[V]) value(letter byte) V {
	if int(letter) < len(l) {
		return l[letter]
	}
	return ""
}

// Browsers, Systems and Devices list every value.
var (
	Browsers = browserLetters.all()
	Systems  = systemLetters.all()
	Devices  = deviceLetters.all()
)

// all returns the values in the order of their letters.
func (l *letters[V]) all() []V {
	return slices.DeleteFunc(slices.Clone(l[:]), func(value V) bool { return value == "" })
}

// clientHead is the length of a stored client without its host: two letters of the country, and one
// each of browser, system and device.
const clientHead = 5

// Pack returns the client as the text that databases store: 5 characters such as DEcwd, then the
// host. It is empty without any value.
func (c *Client) Pack() string {
	if *c == (Client{}) {
		return ""
	}

	head := [clientHead]byte{
		unknown, unknown, browserLetters.of(c.Browser), systemLetters.of(c.System), deviceLetters.of(c.Device),
	}
	if len(c.Country) == 2 {
		copy(head[:], c.Country)
	}
	return string(head[:]) + c.Host
}

// UnpackClient returns the client of a stored text. A text that Pack did not make has no values.
func UnpackClient(packed string) (c Client) {
	if len(packed) < clientHead {
		return c
	}

	if country := packed[:2]; IsCountry(country) {
		c.Country = country
	}
	c.Browser = browserLetters.value(packed[2])
	c.System = systemLetters.value(packed[3])
	c.Device = deviceLetters.value(packed[4])
	c.Host = packed[clientHead:]
	return c
}

// countryCodes are the codes of ISO 3166-1 alpha-2, and XK, which databases of addresses use for
// Kosovo.
const countryCodes = "AD AE AF AG AI AL AM AO AQ AR AS AT AU AW AX AZ BA BB BD BE BF BG BH BI BJ BL BM BN BO BQ BR " +
	"BS BT BV BW BY BZ CA CC CD CF CG CH CI CK CL CM CN CO CR CU CV CW CX CY CZ DE DJ DK DM DO DZ EC EE EG EH ER ES " +
	"ET FI FJ FK FM FO FR GA GB GD GE GF GG GH GI GL GM GN GP GQ GR GS GT GU GW GY HK HM HN HR HT HU ID IE IL IM IN " +
	"IO IQ IR IS IT JE JM JO JP KE KG KH KI KM KN KP KR KW KY KZ LA LB LC LI LK LR LS LT LU LV LY MA MC MD ME MF MG " +
	"MH MK ML MM MN MO MP MQ MR MS MT MU MV MW MX MY MZ NA NC NE NF NG NI NL NO NP NR NU NZ OM PA PE PF PG PH PK PL " +
	"PM PN PR PS PT PW PY QA RE RO RS RU RW SA SB SC SD SE SG SH SI SJ SK SL SM SN SO SR SS ST SV SX SY SZ TC TD TF " +
	"TG TH TJ TK TL TM TN TO TR TT TV TW TZ UA UG UM US UY UZ VA VC VE VG VI VN VU WF WS XK YE YT ZA ZM ZW"

// Countries lists the codes of all countries, sorted.
var Countries = strings.Fields(countryCodes)

// isCountry marks the codes of countries by their letters.
var isCountry = func() (set [26][26]bool) {
	for _, code := range Countries {
		set[code[0]-'A'][code[1]-'A'] = true
	}
	return set
}()

// IsCountry reports whether code is the code of a country, in capital letters.
func IsCountry(code string) bool {
	return len(code) == 2 && code[0]-'A' < 26 && code[1]-'A' < 26 && isCountry[code[0]-'A'][code[1]-'A']
}
