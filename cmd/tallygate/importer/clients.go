package importer

import (
	"strings"
	"unicode"

	"github.com/tallygate/tallygate/db/model"
)

// Names of other services for browsers, systems and devices, in the form of words. Other names
// follow the rules of browserOf, systemOf and deviceOf.
var (
	browserNames = map[string]model.Browser{
		"chrome": model.Chrome, "googlechrome": model.Chrome, "chromium": model.Chrome, "crios": model.Chrome,
		"safari": model.Safari, "applesafari": model.Safari, "ios": model.Safari, // of Umami: Safari on iOS
		"firefox": model.Firefox, "mozillafirefox": model.Firefox, "fxios": model.Firefox, "firefoxfocus": model.Firefox,
		"firefoxklar": model.Firefox, "firefoxreality": model.Firefox, "fennec": model.Firefox,
		"edge": model.Edge, "microsoftedge": model.Edge, "msedge": model.Edge, "edgechromium": model.Edge,
		"microsoftedgechromium": model.Edge, "microsoftedgelegacy": model.Edge,
		"opera": model.Opera, "operagx": model.Opera, "operatouch": model.Opera, "operaneon": model.Opera,
		"operacrypto": model.Opera, "operadevices": model.Opera, "opr": model.Opera,
		"samsung": model.SamsungInternet, "samsunginternet": model.SamsungInternet,
		"brave":   model.Brave,
		"vivaldi": model.Vivaldi,
		"yandex":  model.YandexBrowser, "yabrowser": model.YandexBrowser, "yandexbrowser": model.YandexBrowser,
		"duckduckgo": model.DuckDuckGo, "duckduckgoprivacy": model.DuckDuckGo, "duckduckgoprivacyessentials": model.DuckDuckGo,
		"uc": model.UCBrowser, "ucweb": model.UCBrowser, "ucturbo": model.UCBrowser, "ucbrowser": model.UCBrowser,
		"ucbrowserhd": model.UCBrowser, "uchd": model.UCBrowser,
		"huawei": model.HuaweiBrowser, "huaweibrowser": model.HuaweiBrowser,
		"mi": model.MiBrowser, "miui": model.MiBrowser, "miuibrowser": model.MiBrowser, "xiaomi": model.MiBrowser,
		"qq": model.QQBrowser, "qqbrowser": model.QQBrowser, "mqqbrowser": model.QQBrowser, "mqq": model.QQBrowser,
		"whale": model.Whale, "naverwhale": model.Whale,
		"silk": model.Silk, "amazonsilk": model.Silk,
		"ie": model.Explorer, "msie": model.Explorer, "iemobile": model.Explorer, "internetexplorer": model.Explorer,
		"microsoftinternetexplorer": model.Explorer,
		"android":                   model.AndroidBrowser, "androidbrowser": model.AndroidBrowser, "androidstock": model.AndroidBrowser,

		// Apps, and Plausible's name for all of them.
		"mobileapp": model.InApp, "facebook": model.InApp, "facebookmessenger": model.InApp, "messenger": model.InApp,
		"instagram": model.InApp, "threads": model.InApp, "whatsapp": model.InApp, "kakaotalk": model.InApp,
		"wechat": model.InApp, "line": model.InApp, "tiktok": model.InApp, "snapchat": model.InApp, "twitter": model.InApp,
		"linkedin": model.InApp, "pinterest": model.InApp, "telegram": model.InApp, "reddit": model.InApp,
		"google": model.InApp, "googleapp": model.InApp, "googlesearchapp": model.InApp, "gsa": model.InApp,
		"naver": model.InApp, "weibo": model.InApp,
	}

	systemNames = map[string]model.System{
		"win": model.Windows, "win32": model.Windows, "win64": model.Windows,
		"windowsphone": model.OtherSystem, "windowsmobile": model.OtherSystem, "windowsce": model.OtherSystem,
		"mac": model.MacOS, "macintosh": model.MacOS, "osx": model.MacOS,
		"ubuntu": model.Linux, "kubuntu": model.Linux, "xubuntu": model.Linux, "lubuntu": model.Linux, "debian": model.Linux,
		"fedora": model.Linux, "centos": model.Linux, "centosstream": model.Linux, "redhat": model.Linux, "suse": model.Linux,
		"opensuse": model.Linux, "mint": model.Linux, "gentoo": model.Linux, "manjaro": model.Linux, "mageia": model.Linux,
		"mandriva": model.Linux, "slackware": model.Linux, "raspbian": model.Linux, "raspberrypios": model.Linux,
		"zorinos": model.Linux, "deepin": model.Linux, "kali": model.Linux, "pureos": model.Linux, "x11": model.Linux,
		"chromeos": model.ChromeOS, "chromiumos": model.ChromeOS, "cros": model.ChromeOS, "fydeos": model.ChromeOS,
		"fireos": model.Android, "amazonos": model.Android, "cyanogenmod": model.Android, "lineageos": model.Android,
		"remixos": model.Android, "wearos": model.Android,
		"ios": model.IOS, "ipados": model.IOS, "iphoneos": model.IOS, "iphone": model.IOS, "ipad": model.IOS, "ipod": model.IOS,
		"harmonyos": model.HarmonyOS, "harmony": model.HarmonyOS, "openharmony": model.HarmonyOS,
		"kaios": model.KaiOS, "tizen": model.Tizen, "webos": model.WebOS, "webostv": model.WebOS, "web0s": model.WebOS,
	}

	deviceNames = map[string]model.Device{
		"desktop": model.Desktop, "laptop": model.Desktop, "notebook": model.Desktop, "netbook": model.Desktop,
		"computer": model.Desktop, "pc": model.Desktop,
		"mobile": model.Phone, "phone": model.Phone, "smartphone": model.Phone, "mobilephone": model.Phone,
		"featurephone": model.Phone, "phablet": model.Phone, "handset": model.Phone,
		"tablet": model.Tablet,
		"tv":     model.TV, "smarttv": model.TV, "television": model.TV, "console": model.TV, "gameconsole": model.TV,
		"gamingconsole": model.TV, "gamesconsole": model.TV, "settopbox": model.TV,
	}
)

// unknownNames are what services write where they know no browser, system or host, in the form of
// words, in addition to the words of nothing.
var unknownNames = map[string]bool{
	"": true, "unknown": true, "unk": true, "na": true, "datanotavailable": true, "notavailable": true,
}

// browserVariants are words of names that say nothing about the family: "Chrome Mobile iOS" is
// Chrome.
var browserVariants = map[string]bool{
	"mobile": true, "ios": true, "android": true, "ipados": true, "desktop": true, "headless": true, "browser": true,
	"mini": true, "lite": true, "beta": true, "dev": true, "for": true,
}

// browserOf returns the family of a browser by its name in another service, with or without a
// version.
func browserOf(name string) model.Browser {
	list := words(value(name))
	key := strings.Join(list, "")
	if unknownNames[key] || key == "browser" {
		return "" // Umami writes browser for an unknown one
	}
	if family, ok := browserNames[key]; ok {
		return family
	}

	// For example, "Safari (in-app)" and chromium-webview.
	if strings.Contains(key, "webview") || strings.Contains(key, "inapp") {
		return model.InApp
	}

	var family strings.Builder
	for _, word := range list {
		if !browserVariants[word] {
			family.WriteString(word)
		}
	}
	if found, ok := browserNames[family.String()]; ok {
		return found
	}
	return model.OtherBrowser
}

// systemOf returns the family of an operating system by its name in another service, with or
// without a version.
func systemOf(name string) model.System {
	key := strings.Join(words(value(name)), "")
	if unknownNames[key] {
		return ""
	}
	if family, ok := systemNames[key]; ok {
		return family
	}

	// Names of versions and distributions, such as "Windows Vista", "macOS Sonoma" and "Arch
	// Linux".
	switch {
	case strings.HasPrefix(key, "windows"):
		return model.Windows
	case strings.HasPrefix(key, "macos"):
		return model.MacOS
	case strings.HasPrefix(key, "android"):
		return model.Android
	case strings.Contains(key, "linux"):
		return model.Linux
	}
	return model.OtherSystem
}

// deviceOf returns the class of a device by its name in another service; empty for others, such as
// wearables.
func deviceOf(name string) model.Device { return deviceNames[strings.Join(words(name), "")] }

// countryOf returns the code of a country by its code, by the code of one of its regions, such as
// US-TX, or by its English name. It is empty for everything else.
func countryOf(text string) string {
	code, region, _ := strings.Cut(strings.ToUpper(strings.TrimSpace(text)), "-")
	switch {
	case model.IsCountry(code) && len(region) <= 3:
		return code
	case code == "UK":
		return "GB"
	}
	return countryNames[countryKey(text)]
}

// hostOf returns the host of a page as it is stored; empty for a text that is not the host of a
// site. A name without a dot, such as localhost, has none.
func hostOf(text string) string {
	if unknownNames[strings.Join(words(value(text)), "")] {
		return ""
	}
	host, _, ok := model.PageAddress("https://" + strings.TrimSpace(text))
	if !ok || !strings.Contains(host, ".") {
		return ""
	}
	return host
}

// clientValue returns a value of a dimension of browsers in the form that ingestion stores.
func clientValue(by model.ReportDimension, text string) string {
	switch by {
	case model.DimensionCountry:
		return countryOf(text)
	case model.DimensionBrowser:
		return string(browserOf(text))
	case model.DimensionSystem:
		return string(systemOf(text))
	case model.DimensionDevice:
		return string(deviceOf(text))
	}
	return hostOf(text)
}

// words returns the words of a name in lower case, without the version at its end: chrome, mobile
// of "Chrome Mobile 120.0".
func words(name string) []string {
	fields := strings.Fields(strings.ToLower(name))
	for len(fields) > 1 && unicode.IsDigit(rune(fields[len(fields)-1][0])) {
		fields = fields[:len(fields)-1]
	}
	return strings.FieldsFunc(strings.Join(fields, " "), func(r rune) bool { return !unicode.IsLetter(r) && !unicode.IsDigit(r) })
}

// rawClient is what an export says about the browser of a hit.
type rawClient struct{ country, browser, system, device, host string }

// client returns the values in the form that ingestion stores.
func (r rawClient) client() *model.Client {
	return &model.Client{
		Country: countryOf(r.country), Browser: browserOf(r.browser), System: systemOf(r.system), Device: deviceOf(r.device),
		Host: hostOf(r.host),
	}
}
