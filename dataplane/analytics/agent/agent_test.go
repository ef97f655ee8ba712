package agent

import (
	"net/http"
	"os"
	"slices"
	"strings"
	"testing"

	"github.com/tallygate/tallygate/db/model"
	"github.com/tallygate/tallygate/tools/testkit"
)

// sample is a line of testdata/agents.tsv.
type sample struct {
	userAgent string
	browser   model.Browser
	system    model.System
	device    model.Device
}

// samples reads testdata/agents.tsv. It fails on a value that model does not list.
func samples(tb testing.TB) (all []sample) {
	tb.Helper()

	text, err := os.ReadFile("testdata/agents.tsv")
	testkit.NoError(tb, err)

	for line := range strings.Lines(string(text)) {
		if strings.HasPrefix(line, "#") {
			continue
		}

		columns := strings.Split(strings.TrimSuffix(line, "\n"), "\t")
		if len(columns) != 4 {
			tb.Fatalf("%q has %d columns, want 4", line, len(columns))
		}
		for i := range 3 {
			if columns[i] == "-" {
				columns[i] = ""
			}
		}

		s := sample{columns[3], model.Browser(columns[0]), model.System(columns[1]), model.Device(columns[2])}
		if !isListed(s.browser, s.system, s.device) {
			tb.Fatalf("%q has a value that is not listed", line)
		}
		all = append(all, s)
	}
	return all
}

// isListed reports whether model lists the values; empty ones are allowed.
func isListed(browser model.Browser, system model.System, device model.Device) bool {
	return (browser == "" || slices.Contains(model.Browsers, browser)) &&
		(system == "" || slices.Contains(model.Systems, system)) &&
		(device == "" || slices.Contains(model.Devices, device))
}

// knownWrong are agents of the table for which Of returns another value than a person reads, with
// the reason.
var knownWrong = map[string]string{
	"Mozilla/5.0 (Maemo; Linux armv7l; rv:2.0.1) Gecko/20100101 Firefox/4.0.1 Fennec/2.0.1(Linux LLC 1.2)": "a phone of " +
		"2009 that says Linux, as desktops do",
}

func TestAgents(t *testing.T) {
	all := samples(t)
	if len(all) < 400 {
		t.Fatalf("the table has %d agents, want 400 or more", len(all))
	}

	for _, s := range all {
		browser, system, device := Of(s.userAgent, nil)
		right := browser == s.browser && system == s.system && device == s.device
		if _, known := knownWrong[s.userAgent]; known == right {
			t.Errorf("%s\nis %q, %q, %q, want %q, %q, %q; known as wrong: %v", s.userAgent, browser, system, device,
				s.browser, s.system, s.device, known)
		}
	}
}

// TestForms tests agents that are not in the table because no browser sends them.
func TestForms(t *testing.T) {
	tests := []struct {
		name, userAgent string
		browser         model.Browser
		system          model.System
		device          model.Device
	}{
		{"empty", "", "", "", ""},
		{"spaces", "   ", "", "", ""},
		{"digits", "5.0 (10.0)", "", "", ""},
		{"control character", "Mozilla/5.0 (Windows NT 10.0)\x00 Chrome/131.0 Safari/537.36", "", "", ""},
		{"line break", "Mozilla/5.0\r\n(Windows NT 10.0)", "", "", ""},
		{"too long", "Mozilla/5.0 (Windows NT 10.0) Firefox/130.0" + strings.Repeat(" ", maxLength), "", "", ""},
		{"longest", "Mozilla/5.0 (X11; Linux) Firefox/1 " + strings.Repeat("x", maxLength-35), model.Firefox, model.Linux,
			model.Desktop},
		{"one word", "foo", model.OtherBrowser, model.OtherSystem, ""},
		{"letters beyond ASCII", "Браузер/1.0 (Android 14; Mobile)", model.OtherBrowser, model.Android, model.Phone},
		{"part of a word", "MyChrome/1.0 (NotWindows; xMobile)", model.OtherBrowser, model.OtherSystem, ""},
		{"only alike", "Foo/1.0 (like Firefox/130.0; like Windows)", model.OtherBrowser, model.OtherSystem, ""},
		{"common words", "Line Silk Whale OPT Edge Focus Mini", model.OtherBrowser, model.OtherSystem, ""},
		{"HarmonyOS on a desktop", "Mozilla/5.0 (PC; OpenHarmony 5.0) AppleWebKit/537.36 (KHTML, like Gecko) Chrome/132.0.0.0 " +
			"Safari/537.36 ArkWeb/6.0.0.43 HuaweiBrowser/6.0.1.310", model.HuaweiBrowser, model.HarmonyOS, model.Desktop},
		{"an app on a Mac with TV in its name", "Mozilla/5.0 (Macintosh; Intel Mac OS X 10_15_7) AppleWebKit/537.36 (KHTML, " +
			"like Gecko) FooTV/1.0 Chrome/120.0.0.0 Safari/537.36", model.Chrome, model.MacOS, model.Desktop},
	}

	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			browser, system, device := Of(test.userAgent, nil)
			if browser != test.browser || system != test.system || device != test.device {
				t.Errorf("is %q, %q, %q, want %q, %q, %q", browser, system, device, test.browser, test.system, test.device)
			}
		})
	}
}

// Agents of TestHints.
const (
	chromeOnWindows = "Mozilla/5.0 (Windows NT 10.0; Win64; x64) AppleWebKit/537.36 (KHTML, like Gecko) Chrome/131.0.0.0 Safari/537.36"
	chromeOnLinux   = "Mozilla/5.0 (X11; Linux x86_64) AppleWebKit/537.36 (KHTML, like Gecko) Chrome/131.0.0.0 Safari/537.36"
	chromeOnPhone   = "Mozilla/5.0 (Linux; Android 10; K) AppleWebKit/537.36 (KHTML, like Gecko) Chrome/131.0.0.0 Mobile Safari/537.36"
	chromeOnTablet  = "Mozilla/5.0 (Linux; Android 10; K) AppleWebKit/537.36 (KHTML, like Gecko) Chrome/131.0.0.0 Safari/537.36"
	edgeOnWindows   = chromeOnWindows + " Edg/131.0.0.0"
	vivaldi7        = chromeOnWindows + " Vivaldi/7.0.3495.15"
	firefoxOnLinux  = "Mozilla/5.0 (X11; Linux x86_64; rv:133.0) Gecko/20100101 Firefox/133.0"
	television      = "Mozilla/5.0 (Web0S; Linux/SmartTV) AppleWebKit/537.36 (KHTML, like Gecko) Chrome/108.0.0.0 Safari/537.36"
	viewOnPhone     = "Mozilla/5.0 (Linux; Android 14; Pixel 8 Build/AP2A.240805.005; wv) AppleWebKit/537.36 (KHTML, like Gecko) " +
		"Version/4.0 Chrome/127.0.6533.103 Mobile Safari/537.36"
)

func TestHints(t *testing.T) {
	tests := []struct {
		name, userAgent, brands, platform, mobile string
		browser                                   model.Browser
		system                                    model.System
		device                                    model.Device
	}{
		// Browsers that send Chrome's agent.
		{"Brave", chromeOnWindows, `"Brave";v="131", "Chromium";v="131", "Not_A Brand";v="24"`, `"Windows"`, "?0",
			model.Brave, model.Windows, model.Desktop},
		{"Brave without the other hints", chromeOnLinux, `"Not A(Brand";v="8", "Chromium";v="132", "Brave";v="132"`, "", "",
			model.Brave, model.Linux, model.Desktop},
		{"Chrome", chromeOnWindows, `"Google Chrome";v="131", "Chromium";v="131", "Not_A Brand";v="24"`, `"Windows"`, "?0",
			model.Chrome, model.Windows, model.Desktop},
		{"Chromium", chromeOnLinux, `"Chromium";v="131", "Not_A Brand";v="24"`, `"Linux"`, "?0", model.Chrome, model.Linux,
			model.Desktop},
		{"Opera", chromeOnWindows, `"Chromium";v="130", "Opera";v="115", "Not?A_Brand";v="99"`, `"Windows"`, "?0", model.Opera,
			model.Windows, model.Desktop},
		{"Opera GX", chromeOnWindows, `"Chromium";v="130", "Opera GX";v="115"`, "", "", model.Opera, model.Windows, model.Desktop},
		{"Samsung", chromeOnPhone, `"Samsung Internet";v="27.0", "Chromium";v="125"`, `"Android"`, "?1", model.SamsungInternet,
			model.Android, model.Phone},
		{"Yandex", chromeOnWindows, `"Chromium";v="128", "Not;A=Brand";v="24", "YaBrowser";v="24.10", "Yowser";v="2.5"`,
			`"Windows"`, "?0", model.YandexBrowser, model.Windows, model.Desktop},
		{"Whale", chromeOnWindows, `"Whale";v="3", "Not-A.Brand";v="8", "Chromium";v="128"`, `"Windows"`, "?0", model.Whale,
			model.Windows, model.Desktop},
		{"DuckDuckGo on Windows", edgeOnWindows, `"Microsoft Edge";v="131", "Chromium";v="131", "DuckDuckGo";v="131", ` +
			`"Microsoft Edge WebView2";v="131"`, `"Windows"`, "?0", model.DuckDuckGo, model.Windows, model.Desktop},

		// Agents that name the browser better than the brands.
		{"Vivaldi with Chrome's brands", vivaldi7, `"Google Chrome";v="131", "Chromium";v="131"`, `"Windows"`, "?0",
			model.Vivaldi, model.Windows, model.Desktop},
		{"Edge with Chromium alone", edgeOnWindows, `"Chromium";v="131"`, `"Windows"`, "?0", model.Edge, model.Windows,
			model.Desktop},

		// Pages inside apps.
		{"view of Android", viewOnPhone, `"Android WebView";v="127", "Chromium";v="127"`, `"Android"`, "?1", model.InApp,
			model.Android, model.Phone},
		{"view of Android with Chrome's agent", chromeOnPhone, `"Android WebView";v="131", "Chromium";v="131"`, `"Android"`, "?1",
			model.InApp, model.Android, model.Phone},
		{"view of Edge", edgeOnWindows, `"Microsoft Edge";v="131", "Microsoft Edge WebView2";v="131"`, `"Windows"`, "?0",
			model.InApp, model.Windows, model.Desktop},

		// Contradictions.
		{"Edge with Firefox's agent", firefoxOnLinux, `"Microsoft Edge";v="131", "Chromium";v="131"`, `"Windows"`, "?0",
			model.Edge, model.Windows, model.Desktop},
		{"Firefox with Chromium's brand", firefoxOnLinux, `"Chromium";v="131"`, "", "", model.Firefox, model.Linux, model.Desktop},
		{"other platform", chromeOnWindows, `"Google Chrome";v="131"`, `"macOS"`, "?0", model.Chrome, model.MacOS, model.Desktop},
		{"phone with a desktop's agent", chromeOnLinux, `"Google Chrome";v="131"`, `"Android"`, "?1", model.Chrome, model.Android,
			model.Phone},
		{"tablet with a desktop's agent", chromeOnLinux, `"Google Chrome";v="131"`, `"Android"`, "?0", model.Chrome,
			model.Android, model.Tablet},
		{"tablet that says it is mobile", chromeOnTablet, "", "", "?1", model.Chrome, model.Android, model.Phone},
		{"phone that says it is not mobile", chromeOnPhone, "", "", "?0", model.Chrome, model.Android, model.Tablet},
		{"desktop that says it is mobile", chromeOnWindows, "", "", "?1", model.Chrome, model.Windows, model.Desktop},
		{"television", television, `"Chromium";v="108"`, `"Linux"`, "?0", model.Chrome, model.WebOS, model.TV},
		{"ChromeOS", chromeOnLinux, `"Google Chrome";v="131"`, `"Chrome OS"`, "?0", model.Chrome, model.ChromeOS, model.Desktop},

		// Hints that complete an agent.
		{"agent without a browser", "App/1.0 (unknown)", `"Google Chrome";v="131"`, `"Android"`, "?1", model.Chrome, model.Android,
			model.Phone},
		{"no agent", "", `"Brave";v="131"`, `"Windows"`, "?0", "", "", ""},

		// Hints that no browser sends.
		{"no quotes", chromeOnWindows, `Brave;v=131`, `Windows`, "1", model.Chrome, model.Windows, model.Desktop},
		{"open quote", chromeOnWindows, `"Brave`, `"`, "?", model.Chrome, model.Windows, model.Desktop},
		{"version like a brand", chromeOnWindows, `"Chromium";v="131", "Foo";v="Edge"`, "", "", model.Chrome, model.Windows,
			model.Desktop},
		{"too long", chromeOnWindows, `"Brave"` + strings.Repeat(" ", maxLength), "", "", model.Chrome, model.Windows,
			model.Desktop},
		{"unknown platform", chromeOnWindows, "", `"Fuchsia"`, "", model.Chrome, model.Windows, model.Desktop},
	}

	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			browser, system, device := Of(test.userAgent, headerOf(test.brands, test.platform, test.mobile))
			if browser != test.browser || system != test.system || device != test.device {
				t.Errorf("is %q, %q, %q, want %q, %q, %q", browser, system, device, test.browser, test.system, test.device)
			}
		})
	}
}

// headerOf returns a header with the hints that are not empty, in the form in which net/http parses
// them.
func headerOf(brands, platform, mobile string) http.Header {
	h := http.Header{}
	for name, value := range map[string]string{"Sec-CH-UA": brands, "Sec-CH-UA-Platform": platform, "Sec-CH-UA-Mobile": mobile} {
		if value != "" {
			h.Set(name, value)
		}
	}
	return h
}

// TestOfAllocatesNothing keeps agents out of memory after a request, and the cost of a hit low.
func TestOfAllocatesNothing(t *testing.T) {
	all := samples(t)
	h := headerOf(`"Brave";v="131", "Chromium";v="131", "Not_A Brand";v="24"`, `"Windows"`, "?0")

	if n := testing.AllocsPerRun(10, func() {
		for _, s := range all {
			Of(s.userAgent, h)
		}
	}); n != 0 {
		t.Errorf("%v allocations, want none", n)
	}
}

func FuzzOf(f *testing.F) {
	for _, s := range samples(f) {
		f.Add(s.userAgent, `"Brave";v="131", "Chromium";v="131"`, `"Windows"`, "?0")
	}
	f.Add("", "", "", "")
	f.Add("like", `"""`, `"`, "?1")

	f.Fuzz(func(t *testing.T, userAgent, brands, platform, mobile string) {
		browser, system, device := Of(userAgent, headerOf(brands, platform, mobile))
		if !isListed(browser, system, device) {
			t.Errorf("%q is %q, %q, %q, which are not all listed", userAgent, browser, system, device)
		}
		if (browser == "") != (system == "") || browser == "" && device != "" {
			t.Errorf("%q has only some values: %q, %q, %q", userAgent, browser, system, device)
		}
	})
}

func BenchmarkOf(b *testing.B) {
	all := samples(b)
	for name, header := range map[string]http.Header{
		"agent": nil,
		"hints": headerOf(`"Google Chrome";v="131", "Chromium";v="131", "Not_A Brand";v="24"`, `"Windows"`, "?0"),
	} {
		b.Run(name, func(b *testing.B) {
			b.ReportAllocs()
			i := 0
			for b.Loop() {
				Of(all[i%len(all)].userAgent, header)
				i++
			}
		})
	}
}
