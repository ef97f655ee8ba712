package agent

import (
	"strings"

	"github.com/tallygate/tallygate/dataplane/bot"
)

// words is a set of words of a user agent that name something.
type words uint64

// The words, by meaning.
const (
	// Systems.
	windows words = 1 << iota
	harmony
	kai
	tizen
	webOS
	crOS
	iPhone
	iPad
	mac
	android
	linux
	x11 // the window system of desktops with Linux and BSD

	// Devices.
	mobile
	phone
	tablet
	tv
	console
	pc

	// Browsers.
	app // known apps that show pages
	duckDuckGo
	brave
	vivaldi
	yandex
	whale
	opera
	samsung
	uc
	huawei
	mi
	qq
	silk
	edge
	explorer
	firefox
	electron
	chrome
	safari
	otherBrowser // a name that ends with Browser and is not listed

	// Engines.
	version
	webView
	arkWeb
)

// has reports whether the set contains any of the given words.
func (w words) has(any words) bool { return w&any != 0 }

// inWord marks the bytes of words: letters and digits of ASCII.
var inWord = func() (set [256]bool) {
	for c := range set {
		set[c] = bot.IsLetter(byte(c)) || c >= '0' && c <= '9'
	}
	return set
}()

// wordsOf returns the known words of a user agent. ok is false for an absurd one: without a letter,
// too long, or with control characters.
func wordsOf(userAgent string) (found words, ok bool) {
	if len(userAgent) > maxLength {
		return 0, false
	}

	afterLike := false
	for i := 0; i < len(userAgent); {
		c := userAgent[i]
		if !inWord[c] {
			if c < ' ' || c == 0x7f {
				return 0, false
			}
			i++
			continue
		}

		start := i
		for i++; i < len(userAgent) && inWord[userAgent[i]]; i++ {
		}

		// Versions and builds begin with a digit.
		if !bot.IsLetter(c) {
			continue
		}

		ok = true
		word := userAgent[start:i]
		if word == "like" {
			afterLike = true
			continue
		}
		if !afterLike {
			found |= meaning(word, i < len(userAgent) && userAgent[i] == '/')
		}
		afterLike = false
	}

	return found, ok
}

// meaning returns what a word means; 0 if nothing. isProduct reports whether a version follows, as
// in Line/14.9: some names are common words otherwise.
func meaning(word string, isProduct bool) words {
	switch word {
	case "Mozilla", "AppleWebKit", "KHTML", "Gecko", "U", "K", "OS", "X", "CPU", "Build", "NT":
		return 0 // the most frequent ones

	case "Windows", "Win95", "Win98", "Win9x", "WinNT":
		return windows
	case "HarmonyOS", "OpenHarmony":
		return harmony
	case "KAIOS":
		return kai
	case "Tizen":
		return tizen
	case "Web0S", "webOS", "WebOS":
		return webOS
	case "CrOS":
		return crOS
	case "iPhone", "iPod":
		return iPhone
	case "iPad":
		return iPad
	case "Macintosh", "Mac":
		return mac
	case "Android":
		return android
	case "Linux", "LINUX", "Ubuntu":
		return linux
	case "X11", "Wayland":
		return x11

	case "Mobile":
		return mobile
	case "Phone", "IEMobile", "MIDP":
		return phone
	case "Mini":
		return product(phone, isProduct) // Opera Mini
	case "Tablet", "Kindle":
		return tablet
	case "BRAVIA", "Chromecast", "CrKey", "Roku", "InettvBrowser":
		return tv
	case "PlayStation", "PLAYSTATION", "Xbox", "XBOX", "Nintendo":
		return console
	case "PC":
		return pc

	case "FBAN", "FBAV", "IAB", "Instagram", "Barcelona", "musical", "trill", "BytedanceWebview", "MicroMessenger",
		"GSA", "Snapchat", "Pinterest", "LinkedInApp", "KAKAOTALK", "NAVER", "BingWeb", "BingSapphire", "baiduboxapp",
		"Flipboard", "GNews", "Twitter":
		return app
	case "Line":
		return product(app, isProduct)

	case "DuckDuckGo", "Ddg":
		return duckDuckGo
	case "Brave", "brave":
		return brave
	case "Vivaldi":
		return vivaldi
	case "YaBrowser", "YaSearchBrowser":
		return yandex
	case "Whale":
		return product(whale, isProduct)
	case "OPR", "Opera", "OPiOS":
		return opera
	case "OPT", "OPX":
		return product(opera, isProduct)
	case "SamsungBrowser":
		return samsung
	case "UCBrowser", "UCWEB":
		return uc
	case "HuaweiBrowser":
		return huawei
	case "MiuiBrowser":
		return mi
	case "MQQBrowser", "QQBrowser":
		return qq
	case "Silk":
		return product(silk, isProduct)
	case "Edg", "Edge", "EdgA", "EdgiOS", "EdgW":
		return product(edge, isProduct)
	case "MSIE", "Trident":
		return explorer
	case "Firefox", "FxiOS":
		return firefox
	case "Focus", "Klar":
		return product(firefox, isProduct)
	case "Electron":
		return electron
	case "Chrome", "Chromium", "CriOS":
		return chrome
	case "Safari":
		return safari

	case "Version":
		return version
	case "wv":
		return webView
	case "ArkWeb":
		return arkWeb
	}

	switch {
	case strings.HasSuffix(word, "Browser"):
		return otherBrowser

	// Models of Fire TV are AFT with letters behind, and other televisions say SmartTV, HbbTV or
	// MiTV.
	case strings.HasSuffix(word, "TV"), len(word) > 3 && strings.HasPrefix(word, "AFT"):
		return tv
	}
	return 0
}

// product returns meaning if a version follows the word.
func product(meaning words, isProduct bool) words {
	if isProduct {
		return meaning
	}
	return 0
}
