package importer_test

import (
	"slices"
	"strings"
	"testing"

	"golang.org/x/text/language"
	"golang.org/x/text/language/display"

	"github.com/tallygate/tallygate/cmd/tallygate/importer"
	"github.com/tallygate/tallygate/db/model"
	"github.com/tallygate/tallygate/tools/testkit"
)

// checkOwnNames checks what the names of the services are here, and that our own names stay.
func checkOwnNames[T ~string](t *testing.T, of func(string) T, own []T, want map[string]T) {
	t.Helper()
	for _, name := range own {
		testkit.Equal(t, of(string(name)), name, "%q", name)
	}
	for name, wanted := range want {
		testkit.Equal(t, of(name), wanted, "%q", name)
	}
}

// TestBrowserNames checks names as each service writes them.
func TestBrowserNames(t *testing.T) {
	checkOwnNames(t, importer.BrowserOf, model.Browsers, map[string]model.Browser{
		"": "", "(not set)": "", "Unknown": "", "(unknown)": "", "UNK": "", "browser": "", " ": "",

		// Plausible.
		"Chrome": model.Chrome, "Microsoft Edge": model.Edge, "Samsung Browser": model.SamsungInternet,
		"Mobile App": model.InApp, "Opera": model.Opera, "Brave": model.Brave, "Chrome Webview": model.InApp,

		// Umami.
		"edge-chromium": model.Edge, "edge-ios": model.Edge, "crios": model.Chrome, "fxios": model.Firefox,
		"ios": model.Safari, "ios-webview": model.InApp, "chromium-webview": model.InApp, "samsung": model.SamsungInternet,
		"facebook": model.InApp, "instagram": model.InApp, "kakaotalk": model.InApp, "android": model.AndroidBrowser,
		"yandexbrowser": model.YandexBrowser, "miui": model.MiBrowser, "silk": model.Silk, "opera-mini": model.Opera,
		"ie": model.Explorer, "bb10": model.OtherBrowser, "aol": model.OtherBrowser, "phantomjs": model.OtherBrowser,

		// GoatCounter.
		"Firefox 122": model.Firefox, "Internet Explorer 11": model.Explorer, "Opera Mini 36.2": model.Opera,
		"Safari 17.1": model.Safari,

		// Google Analytics.
		"Safari (in-app)": model.InApp, "Android Webview": model.InApp, "Android Browser": model.AndroidBrowser,
		"Samsung Internet": model.SamsungInternet, "UC Browser": model.UCBrowser, "Amazon Silk": model.Silk,
		"YaBrowser": model.YandexBrowser, "Whale Browser": model.Whale, "Mozilla Compatible Agent": model.OtherBrowser,
		"(other)": model.OtherBrowser, "'+alert(1)+'": model.OtherBrowser,

		// Matomo.
		"Mobile Safari": model.Safari, "Chrome Mobile": model.Chrome, "Chrome Mobile iOS": model.Chrome,
		"Firefox Mobile": model.Firefox, "Firefox Mobile iOS": model.Firefox, "Firefox Focus": model.Firefox,
		"Headless Chrome": model.Chrome, "Opera Mobile": model.Opera, "Opera GX": model.Opera,
		"Yandex Browser Lite": model.YandexBrowser, "UC Browser Mini": model.UCBrowser, "MIUI Browser": model.MiBrowser,
		"Huawei Browser Mobile": model.HuaweiBrowser, "QQ Browser": model.QQBrowser, "IE Mobile": model.Explorer,
		"DuckDuckGo Privacy Browser": model.DuckDuckGo, "Mobile Silk": model.Silk, "Konqueror": model.OtherBrowser,
		"Chrome iOS": model.Chrome, "Vivaldi": model.Vivaldi,
	})
}

func TestSystemNames(t *testing.T) {
	checkOwnNames(t, importer.SystemOf, model.Systems, map[string]model.System{
		"": "", "(not set)": "", "unknown": "", "Unknown": "",

		"Mac": model.MacOS, "Mac OS": model.MacOS, "Mac OS X": model.MacOS, "Mac OS X 10.15.7": model.MacOS, "macOS": model.MacOS,
		"macOS 14.2": model.MacOS, "macOS Sonoma": model.MacOS, "Macintosh": model.MacOS, "OS X": model.MacOS,
		"Windows": model.Windows, "Windows 10": model.Windows, "Windows 10/11": model.Windows, "Windows XP": model.Windows,
		"Windows Server 2003": model.Windows, "windows-10": model.Windows, "Windows Phone": model.OtherSystem,
		"Windows Mobile": model.OtherSystem, "Windows Phone 8.1": model.OtherSystem,
		"Linux": model.Linux, "GNU/Linux": model.Linux, "Ubuntu": model.Linux, "Fedora 39": model.Linux, "Arch Linux": model.Linux,
		"Red Hat": model.Linux, "Chrome OS": model.ChromeOS, "ChromeOS": model.ChromeOS, "Chromium OS": model.ChromeOS,
		"Android": model.Android, "Android OS": model.Android, "android-os": model.Android, "Android 14": model.Android,
		"Android TV": model.Android, "Fire OS": model.Android, "Amazon OS": model.Android,
		"iOS": model.IOS, "iOS 17": model.IOS, "iPadOS": model.IOS, "iPad": model.IOS, "HarmonyOS": model.HarmonyOS,
		"KaiOS": model.KaiOS, "Tizen": model.Tizen, "webOS": model.WebOS, "Web0S": model.WebOS,
		"FreeBSD": model.OtherSystem, "Open BSD": model.OtherSystem, "OS/2": model.OtherSystem, "PlayStation": model.OtherSystem,
		"Other Smart TV": model.OtherSystem, "(other)": model.OtherSystem,
	})
}

func TestDeviceNames(t *testing.T) {
	checkOwnNames(t, importer.DeviceOf, model.Devices, map[string]model.Device{
		"": "", "(not set)": "", "Unknown": "", "Desktop": model.Desktop, "desktop": model.Desktop, "laptop": model.Desktop,
		"Laptop": model.Desktop, "Mobile": model.Phone, "mobile": model.Phone, "Smartphone": model.Phone,
		"Feature phone": model.Phone, "Phablet": model.Phone, "Tablet": model.Tablet, "smart tv": model.TV, "Smart TV": model.TV,
		"TV": model.TV, "Console": model.TV, "Wearable": "", "Car browser": "", "Smart speaker": "", "Others": "",
	})
}

func TestCountryNames(t *testing.T) {
	for text, want := range map[string]string{
		"": "", "(not set)": "", "Unknown": "", "xx": "", "ZZ": "", "EU": "", "-": "", "Atlantis": "", "123": "", "D": "", "DEU": "",

		"DE": "DE", "de": "DE", " nl ": "NL", "uk": "GB", "US-TX": "US", "GB-ENG": "GB", "FR-75C": "FR", "PL-22": "PL", "XX-AB": "",
		"XK": "XK", "ST-Lucia": "LC",

		"United States": "US", "united states": "US", "United States of America": "US", "United Kingdom": "GB", "Germany": "DE",
		"Czechia": "CZ", "Czech Republic": "CZ", "Türkiye": "TR", "Turkey": "TR", "Côte d'Ivoire": "CI", "Côte d’Ivoire": "CI",
		"Cote d'Ivoire": "CI", "Ivory Coast": "CI", "Myanmar (Burma)": "MM", "Hong Kong": "HK", "Macao": "MO", "Macau": "MO",
		"North Macedonia": "MK", "Macedonia (FYROM)": "MK", "Eswatini": "SZ", "Cape Verde": "CV", "Cabo Verde": "CV",
		"South Korea": "KR", "Korea, Republic of": "KR", "North Korea": "KP", "Bosnia & Herzegovina": "BA",
		"Bosnia and Herzegovina": "BA", "St. Kitts & Nevis": "KN", "Saint Kitts and Nevis": "KN", "The Bahamas": "BS",
		"Congo - Kinshasa": "CD", "Democratic Republic of the Congo": "CD", "Congo - Brazzaville": "CG",
		"Republic of the Congo": "CG", "Réunion": "RE", "Reunion": "RE", "Curaçao": "CW", "Åland Islands": "AX",
		"São Tomé & Príncipe": "ST", "Sao Tome and Principe": "ST", "U.S. Virgin Islands": "VI", "Palestine": "PS",
		"Russian Federation": "RU", "Viet Nam": "VN", "Vietnam": "VN", "Guinea-Bissau": "GW", "Guinea": "GN", "Georgia": "GE",
		"South Georgia & South Sandwich Islands": "GS", "South Georgia and the South Sandwich Islands": "GS", "Namibia": "NA",
		"Sint Maarten": "SX", "St. Martin": "MF", "The Netherlands": "NL", "Timor-Leste": "TL", "Kosovo": "XK", "N/A": "",
	} {
		testkit.Equal(t, importer.CountryOf(text), want, "%q", text)
	}
}

// TestCountriesAreComplete checks that each code, and the name of each country in Unicode's tables,
// is found.
func TestCountriesAreComplete(t *testing.T) {
	testkit.Equal(t, len(model.Countries), 250, "countries")
	regions := display.English.Regions()
	for _, code := range model.Countries {
		name := regions.Name(language.MustParseRegion(code))
		for _, text := range []string{code, strings.ToLower(code), name, strings.ToUpper(name)} {
			testkit.Equal(t, importer.CountryOf(text), code, "%q", text)
		}
	}
}

// TestCountryFile checks that each line has a country of its own, and that no name is of two
// countries.
func TestCountryFile(t *testing.T) {
	of := make(map[string]string)
	lines := 0
	for line := range strings.Lines(importer.CountryFile) {
		code, names, _ := strings.Cut(strings.TrimSpace(line), " ")
		if code == "#" {
			continue
		}
		if lines++; !model.IsCountry(code) {
			t.Errorf("there is no country %q", code)
		}
		for name := range strings.SplitSeq(names, "; ") {
			key := importer.CountryKey(name)
			if other, known := of[key]; known || key == "" {
				t.Errorf("%q is a name of %s and of %s", name, other, code)
			}
			of[key] = code
		}
	}
	testkit.Equal(t, lines, len(model.Countries), "lines")
}

func TestHosts(t *testing.T) {
	for text, want := range map[string]string{
		"": "", "(not set)": "", "unknown": "", "example.com": "example.com", "WWW.Example.COM": "www.example.com",
		"example.com.": "example.com", "example.com:8080": "example.com", "bücher.example": "xn--bcher-kva.example",
		"localhost": "", "shop.localhost": "shop.localhost", "two words": "", "user@example.com": "", "exa<mple.com": "", "..": "",
		strings.Repeat("a.", 200) + "example": "", "example.com/page": "example.com",
	} {
		testkit.Equal(t, importer.HostOf(text), want, "%.60q", text)
	}
}

// FuzzNames checks that each text has a value of the fixed lists, or none, and that values stay the
// same.
func FuzzNames(f *testing.F) {
	for _, text := range []string{
		"Chrome Mobile iOS 120.0", "Safari (in-app)", "Windows 10/11", "GNU/Linux", "US-TX", "Türkiye", "Smart TV", "(not set)",
		"\xff", "İ", "1 2 3", "www.example.com", "ﬁrefox",
	} {
		f.Add(text)
	}
	f.Fuzz(func(t *testing.T, text string) {
		if got := importer.BrowserOf(text); got != "" && !slices.Contains(model.Browsers, got) {
			t.Errorf("browser %q", got)
		}
		if got := importer.SystemOf(text); got != "" && !slices.Contains(model.Systems, got) {
			t.Errorf("system %q", got)
		}
		if got := importer.DeviceOf(text); got != "" && !slices.Contains(model.Devices, got) {
			t.Errorf("device %q", got)
		}
		if got := importer.CountryOf(text); got != "" && !model.IsCountry(got) {
			t.Errorf("country %q", got)
		}
		if got := importer.HostOf(text); got != importer.HostOf(got) || !model.IsStorable(got) || len(got) > 254 {
			t.Errorf("host %q becomes %q", got, importer.HostOf(got))
		}
	})
}
