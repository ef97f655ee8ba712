package bot_test

import (
	"os"
	"strings"
	"testing"

	"github.com/tallygate/tallygate/dataplane/bot"
	"github.com/tallygate/tallygate/tools/testkit"
)

const (
	onWindows = "Mozilla/5.0 (Windows NT 10.0; Win64; x64) AppleWebKit/537.36 (KHTML, like Gecko) "
	onMac     = "Mozilla/5.0 (Macintosh; Intel Mac OS X 10_15_7) AppleWebKit/605.1.15 (KHTML, like Gecko) "
	onIPhone  = "Mozilla/5.0 (iPhone; CPU iPhone OS 18_7 like Mac OS X) AppleWebKit/605.1.15 (KHTML, like Gecko) "
	onAndroid = "Mozilla/5.0 (Linux; Android 10; K) AppleWebKit/537.36 (KHTML, like Gecko) "
	inAndroid = "Mozilla/5.0 (Linux; Android 15; SM-S928B Build/AP3A.240905.015; wv) AppleWebKit/537.36 (KHTML, like Gecko) Version/4.0 "
)

func TestBrowsersAreHuman(t *testing.T) {
	tests := []struct{ name, userAgent string }{
		{"Chrome, Windows", onWindows + "Chrome/142.0.0.0 Safari/537.36"},
		{"Chrome, Mac", "Mozilla/5.0 (Macintosh; Intel Mac OS X 10_15_7) AppleWebKit/537.36 (KHTML, like Gecko) Chrome/142.0.0.0 Safari/537.36"},
		{"Chrome, Linux", "Mozilla/5.0 (X11; Linux x86_64) AppleWebKit/537.36 (KHTML, like Gecko) Chrome/142.0.0.0 Safari/537.36"},
		{"Chrome, Chromebook", "Mozilla/5.0 (X11; CrOS x86_64 14541.0.0) AppleWebKit/537.36 (KHTML, like Gecko) Chrome/142.0.0.0 Safari/537.36"},
		{"Chrome, Android", onAndroid + "Chrome/142.0.0.0 Mobile Safari/537.36"},
		{"Chrome, iPhone", onIPhone + "CriOS/142.0.7444.77 Mobile/15E148 Safari/604.1"},
		{"Firefox, Windows", "Mozilla/5.0 (Windows NT 10.0; Win64; x64; rv:145.0) Gecko/20100101 Firefox/145.0"},
		{"Firefox, Linux", "Mozilla/5.0 (X11; Ubuntu; Linux x86_64; rv:145.0) Gecko/20100101 Firefox/145.0"},
		{"Firefox, Android", "Mozilla/5.0 (Android 15; Mobile; rv:145.0) Gecko/145.0 Firefox/145.0"},
		{"Firefox, iPhone", onIPhone + "FxiOS/145.0 Mobile/15E148 Safari/605.1.15"},
		{"Firefox Focus", onIPhone + "FxiOS/8.1.1 Mobile/15E148 Safari/605.1.15"},
		{"Safari, Mac", onMac + "Version/26.1 Safari/605.1.15"},
		{"Safari, iPhone", onIPhone + "Version/26.1 Mobile/15E148 Safari/604.1"},
		{
			name:      "Safari, iPad",
			userAgent: "Mozilla/5.0 (iPad; CPU OS 18_7 like Mac OS X) AppleWebKit/605.1.15 (KHTML, like Gecko) Version/26.1 Mobile/15E148 Safari/604.1",
		},
		{"Edge, Windows", onWindows + "Chrome/142.0.0.0 Safari/537.36 Edg/142.0.0.0"},
		{"Edge, Android", onAndroid + "Chrome/142.0.0.0 Mobile Safari/537.36 EdgA/142.0.0.0"},
		{"Internet Explorer 11", "Mozilla/5.0 (Windows NT 6.1; WOW64; Trident/7.0; rv:11.0) like Gecko"},
		{"Internet Explorer 9", "Mozilla/5.0 (compatible; MSIE 9.0; Windows NT 6.1; Trident/5.0)"},
		{"Samsung Internet", onAndroid + "SamsungBrowser/29.0 Chrome/136.0.0.0 Mobile Safari/537.36"},
		{"Opera, Windows", onWindows + "Chrome/141.0.0.0 Safari/537.36 OPR/125.0.0.0"},
		{"Opera, Android", onAndroid + "Chrome/141.0.0.0 Mobile Safari/537.36 OPR/91.0.0.0"},
		{"Opera Mini", "Opera/9.80 (Android; Opera Mini/36.2.2254/119.132; U; id) Presto/2.12.423 Version/12.16"},
		{"Vivaldi", onWindows + "Chrome/142.0.0.0 Safari/537.36 Vivaldi/7.7.3851.52"},
		{"Brave, Mac", "Mozilla/5.0 (Macintosh; Intel Mac OS X 10_15_7) AppleWebKit/537.36 (KHTML, like Gecko) Chrome/142.0.0.0 Safari/537.36"},
		{"DuckDuckGo, Android", onAndroid + "Version/4.0 Chrome/142.0.0.0 Mobile DuckDuckGo/5 Safari/537.36"},
		{"DuckDuckGo, Mac", onMac + "Version/26.1 Safari/605.1.15 Ddg/26.1"},
		{"Ecosia", onIPhone + "Version/18.6 Mobile/15E148 Safari/604.1 (Ecosia ios@11.4.0.2500)"},
		{"Yandex Browser", onWindows + "Chrome/140.0.0.0 YaBrowser/25.10.0.0 Safari/537.36"},
		{"Coc Coc", onWindows + "coc_coc_browser/142.0.210 Chrome/136.0.0.0 Safari/537.36"},
		{
			name:      "UC Browser",
			userAgent: "Mozilla/5.0 (Linux; U; Android 12; en-US; RMX3231 Build/SP1A.210812.016) AppleWebKit/537.36 (KHTML, like Gecko) Version/4.0 Chrome/100.0.4896.58 UCBrowser/13.4.0.1306 Mobile Safari/537.36",
		},
		{
			name:      "UC Browser Mini",
			userAgent: "UCWEB/2.0 (Java; U; MIDP-2.0; Nokia203/20.37) U2/1.0.0 UCMini/10.9.8.1006 (SpeedMode; Proxy; Android 9; SM-N900 ) U2/1.0.0 Mobile",
		},
		{"QQ Browser", inAndroid + "Chrome/121.0.6167.71 MQQBrowser/16.0 Mobile Safari/537.36"},
		{"Sogou Explorer", onWindows + "Chrome/80.0.3987.87 Safari/537.36 SE 2.X MetaSr 1.0"},
		{"Sogou, mobile", inAndroid + "Chrome/68.0.3440.106 Mobile Safari/537.36 AWP/2.0 SogouMSE,SogouMobileBrowser/5.21.8"},
		{"Mi Browser", inAndroid + "Chrome/112.0.5615.136 Mobile Safari/537.36 XiaoMi/MiuiBrowser/14.10.1"},
		{"Huawei Browser", inAndroid + "Chrome/114.0.5735.196 HuaweiBrowser/15.0.8.301 Mobile Safari/537.36"},
		{
			name:      "Silk",
			userAgent: "Mozilla/5.0 (Linux; Android 9; KFMAWI) AppleWebKit/537.36 (KHTML, like Gecko) Silk/120.1.5 like Chrome/120.0.6099.210 Safari/537.36",
		},
		{"Whale", onWindows + "Chrome/140.0.0.0 Whale/4.34.340.19 Safari/537.36"},
		{"PlayStation", "Mozilla/5.0 (PlayStation; PlayStation 5/10.00) AppleWebKit/605.1.15 (KHTML, like Gecko) Version/17.0 Safari/605.1.15"},
		{
			name:      "LG television",
			userAgent: "Mozilla/5.0 (Web0S; Linux/SmartTV) AppleWebKit/537.36 (KHTML, like Gecko) Chrome/108.0.5359.211 Safari/537.36 WebAppManager",
		},

		{
			name:      "Facebook, iPhone",
			userAgent: onIPhone + "Mobile/15E148 [FBAN/FBIOS;FBAV/535.0.0.50.107;FBBV/812345678;FBDV/iPhone16,1;FBMD/iPhone;FBSN/iOS;FBSV/18.7;FBSS/3;FBCR/;FBID/phone;FBLC/de_DE;FBOP/80]",
		},
		{"Facebook, Android", inAndroid + "Chrome/142.0.7444.102 Mobile Safari/537.36 [FB_IAB/FB4A;FBAV/536.0.0.46.77;]"},
		{"Facebook's newer in-app browser", inAndroid + "Chrome/146.0.7680.174 Mobile Safari/537.36 MetaIAB Facebook"},
		{"Instagram, iPhone", onIPhone + "Mobile/15E148 Instagram 405.0.0.31.73 (iPhone16,1; iOS 18_7; en_US; en; scale=3.00; 1179x2556; 812345678)"},
		{
			name:      "Instagram, calendar",
			userAgent: onIPhone + "Mobile/15E148 Instagram 279.0.0.17.112 (iPhone13,3; iOS 15_6_1; en_SA@calendar=gregorian; en-SA; scale=3.00; 1170x2532; 465757305)",
		},
		{
			name:      "TikTok",
			userAgent: inAndroid + "Chrome/142.0.7444.102 Mobile Safari/537.36 trill_420107 BytedanceWebview/d8a21c6 musical_ly_2024201070 JsSdk/1.0 NetType/WIFI Channel/googleplay AppName/musical_ly",
		},
		{
			name:      "WeChat",
			userAgent: inAndroid + "Chrome/134.0.6998.136 Mobile Safari/537.36 XWEB/1340129 MMWEBSDK/20250201 MicroMessenger/8.0.60.2860(0x28003C51) WeChat/arm64 Weixin NetType/WIFI Language/zh_CN ABI/arm64",
		},
		{"Line", onIPhone + "Mobile/15E148 Safari Line/15.18.0"},
		{"KakaoTalk", inAndroid + "Chrome/142.0.7444.102 Mobile Safari/537.36;KAKAOTALK 2610960"},
		{"Naver", inAndroid + "Chrome/134.0.0.0 Whale/1.0.0.0 Crosswalk/29.134.0.20 Mobile Safari/537.36 NAVER(inapp; search; 2000; 12.15.1)"},
		{"Snapchat", onIPhone + "Mobile/15E148 Snapchat/13.64.0.47 (like Safari/8621.3.11.10.3, panda)"},
		{"Pinterest", onIPhone + "Mobile/15E148 [Pinterest/iOS]"},
		{"LinkedIn", onIPhone + "Mobile/15E148 [LinkedInApp]/9.31.3402"},
		{"Twitter", onIPhone + "Mobile/15E148 Twitter for iPhone/11.36"},
		{"Google app", onIPhone + "GSA/393.0.825461570 Mobile/15E148 Safari/604.1"},
		{"Viber", inAndroid + "Chrome/142.0.7444.102 Mobile Safari/537.36 Viber/26.5.0.0"},
		{"WhatsApp", onIPhone + "Mobile/15E148 WhatsApp/2.25.30"},
		{"Tumblr", onIPhone + "Mobile/15E148 Tumblr/40.9"},
		{"Slack's own browser", onWindows + "Slack/4.46.99 Chrome/140.0.7339.133 Electron/38.1.2 Safari/537.36 Sonic Slack_SSB/4.46.99"},
		{"an editor's browser", onWindows + "Code/1.106.0 Chrome/138.0.7204.251 Electron/37.7.0 Safari/537.36"},
		{"an app with a link", onIPhone + "Mobile/15E148 StudoBrowser/3.16.0-ios-studo (https://studo.co/studo-browser-information-and-contact)"},

		{
			name:      "a CUBOT phone",
			userAgent: "Mozilla/5.0 (Linux; Android 12; CUBOT NOTE 21) AppleWebKit/537.36 (KHTML, like Gecko) Chrome/138.0.0.0 Mobile Safari/537.36",
		},
		{
			name:      "another CUBOT phone",
			userAgent: "Mozilla/5.0 (Linux; Android 8.0.0; CUBOT_P20) AppleWebKit/537.36 (KHTML, like Gecko) Chrome/70.0.3538.110 Mobile Safari/537.36",
		},
		{
			name:      "a CUBOT with build",
			userAgent: "Mozilla/5.0 (Linux; Android 9; CUBOT Build/PPR1) AppleWebKit/537.36 (KHTML, like Gecko) Chrome/70.0.3538.110 Mobile Safari/537.36",
		},
		{
			name:      "HTC Butterfly",
			userAgent: "Mozilla/5.0 (Linux; Android 5.0.2; HTC Butterfly S Build/LRX22G) AppleWebKit/537.36 (KHTML, like Gecko) Chrome/56.0.2924.87 Mobile Safari/537.36",
		},
		{
			name:      "Panasonic",
			userAgent: "Mozilla/5.0 (Linux; Android 9; Panasonic Eluga Ray 610) AppleWebKit/537.36 (KHTML, like Gecko) Chrome/96.0.4664.45 Mobile Safari/537.36",
		},

		{
			name:      "Instagram on Xiaomi's ruby",
			userAgent: inAndroid + "Chrome/121.0.6167.178 Mobile Safari/537.36 Instagram 333.0.0.42.91 Android (34/14; 440dpi; 1080x2176; Xiaomi/Redmi; 22101316G; ruby; mt6877; en_US; 587; --)",
		},
		{
			name:      "Instagram on Motorola's spyder",
			userAgent: inAndroid + "Chrome/95.0.4638.74 Mobile Safari/537.36 Instagram 200.0.0.28.120 Android (19/4.4.4; 240dpi; 540x960; motorola; DROID RAZR; spyder; omap4; en_US; 313; --)",
		},
		{
			name:      "Instagram, cut off",
			userAgent: inAndroid + "Chrome/121.0.6167.178 Mobile Safari/537.36 Instagram 333.0.0.42.91 Android (34/14; 440dpi; 1080x2176; Xiaomi/Redmi; 22101316G; ruby; mt68",
		},
		{
			name:      "Facebook on ruby",
			userAgent: inAndroid + "Chrome/142.0.7444.102 Mobile Safari/537.36 [FB_IAB/FB4A;FBAV/536.0.0.46.77;FBMF/Xiaomi;FBBD/Redmi;FBDV/ruby;FBSV/14;FBCA/arm64-v8a:null;]",
		},
		{
			name:      "Facebook Lite on spyder",
			userAgent: "Mozilla/5.0 (Linux; Android 4.4.4; spyder Build/KTU84Q) AppleWebKit/537.36 (KHTML, like Gecko) Version/4.0 Chrome/33.0.0.0 Mobile Safari/537.36 [FBAN/EMA;FBLC/en_US;FBAV/239.0.0.10.109;FBDM/DisplayMetrics{density=1.5};FBDV/spyder;]",
		},
		{
			name:      "WeChat on ruby",
			userAgent: "Mozilla/5.0 (Linux; Android 14; ruby Build/UP1A.231005.007; wv) AppleWebKit/537.36 (KHTML, like Gecko) Version/4.0 Chrome/134.0.6998.136 Mobile Safari/537.36 XWEB/1340129 MMWEBSDK/20250201 MMWEBID/98 MicroMessenger/8.0.60.2860(0x28003C51) WeChat/arm64 Weixin NetType/WIFI Language/zh_CN ABI/arm64",
		},
		{
			name:      "TikTok on ruby",
			userAgent: "Mozilla/5.0 (Linux; Android 14; ruby Build/UP1A.231005.007; wv) AppleWebKit/537.36 (KHTML, like Gecko) Version/4.0 Chrome/142.0.7444.102 Mobile Safari/537.36 trill_420107 BytedanceWebview/d8a21c6 JsSdk/1.0 AppName/musical_ly Device/ruby ByteLocale/en",
		},
		{"Snapchat on ruby", inAndroid + "Chrome/142.0.7444.102 Mobile Safari/537.36 Snapchat/13.64.0.47 (ruby; Android 14#V816#34; gzip)"},
		{
			name:      "Threads on an iPhone",
			userAgent: onIPhone + "Mobile/15E148 Barcelona 405.0.0.31.73 (iPhone16,1; iOS 18_7; en_US; ruby; scale=3.00; 1179x2556; 812345678)",
		},
		{"Chrome on ruby", "Mozilla/5.0 (Linux; Android 14; ruby) AppleWebKit/537.36 (KHTML, like Gecko) Chrome/142.0.0.0 Mobile Safari/537.36"},
		{
			name:      "a phone named curl",
			userAgent: "Mozilla/5.0 (Linux; Android 14; curl Build/AP2A) AppleWebKit/537.36 (KHTML, like Gecko) Chrome/142.0.0.0 Mobile Safari/537.36",
		},
		{
			name:      "a phone named perl",
			userAgent: "Mozilla/5.0 (Linux; Android 14; perl Build/AP2A) AppleWebKit/537.36 (KHTML, like Gecko) Chrome/142.0.0.0 Mobile Safari/537.36",
		},
		{"an app in Jakarta", inAndroid + "Chrome/142.0.7444.102 Mobile Safari/537.36 Shop/3.1 tz=Asia/Jakarta"},

		{"an app's own requests on iOS", "ExampleApp/1 iPhone5,2 iOS/10_1 CFNetwork/808.3 Darwin/16.3.0"},
		{"an app's own requests on Android", "Dalvik/2.1.0 (Linux; U; Android 9; SM-G965U Build/PPR1.180610.011)"},
		{"Lynx", "Lynx/2.9.0 libwww-FM/2.14 SSL-MM/1.4.1 GNUTLS/3.8.3"},
		{"w3m", "w3m/0.5.3+git20230121"},
	}
	for _, tt := range tests {
		if bot.Is(tt.userAgent) {
			t.Errorf("%s is taken for a bot: %s", tt.name, tt.userAgent)
		}
	}
}

func TestBots(t *testing.T) {
	tests := []struct{ name, userAgent string }{
		{"none", ""},
		{"blank", " "},
		{"absurdly long", onWindows + "Chrome/142.0.0.0 Safari/537.36" + strings.Repeat(" x", 1000)},
		{"one word", "Mozilla/5.0"},
		{"no system", "Mozilla/5.0 Chrome Safari"},

		{"Googlebot", "Mozilla/5.0 (compatible; Googlebot/2.1; +http://www.google.com/bot.html)"},
		{
			name:      "Googlebot, mobile",
			userAgent: "Mozilla/5.0 (Linux; Android 6.0.1; Nexus 5X Build/MMB29P) AppleWebKit/537.36 (KHTML, like Gecko) Chrome/142.0.7444.59 Mobile Safari/537.36 (compatible; Googlebot/2.1; +http://www.google.com/bot.html)",
		},
		{"GoogleOther", onWindows + "Chrome/142.0.7444.59 Safari/537.36 (compatible; GoogleOther)"},
		{
			name:      "Bingbot",
			userAgent: "Mozilla/5.0 AppleWebKit/537.36 (KHTML, like Gecko; compatible; bingbot/2.0; +http://www.bing.com/bingbot.htm) Chrome/116.0.1938.76 Safari/537.36",
		},
		{"YandexBot", "Mozilla/5.0 (compatible; YandexBot/3.0; +http://yandex.com/bots)"},
		{"Baiduspider", "Mozilla/5.0 (compatible; Baiduspider/2.0; +http://www.baidu.com/search/spider.html)"},
		{"Applebot", onMac + "Version/17.4 Safari/605.1.15 (Applebot/0.1; +http://www.apple.com/go/applebot)"},
		{"DuckDuckBot", "DuckDuckBot/1.1; (+http://duckduckgo.com/duckduckbot.html)"},
		{"GPTBot", "Mozilla/5.0 AppleWebKit/537.36 (KHTML, like Gecko); compatible; GPTBot/1.3; +https://openai.com/gptbot"},
		{"ChatGPT-User", "Mozilla/5.0 AppleWebKit/537.36 (KHTML, like Gecko); compatible; ChatGPT-User/1.0; +https://openai.com/bot"},
		{"ClaudeBot", "Mozilla/5.0 AppleWebKit/537.36 (KHTML, like Gecko; compatible; ClaudeBot/1.0; +claudebot@anthropic.com)"},
		{"PerplexityBot", "Mozilla/5.0 AppleWebKit/537.36 (KHTML, like Gecko; compatible; PerplexityBot/1.0; +https://perplexity.ai/perplexitybot)"},
		{
			name:      "Bytespider",
			userAgent: "Mozilla/5.0 (Linux; Android 5.0) AppleWebKit/537.36 (KHTML, like Gecko) Mobile Safari/537.36 (compatible; Bytespider; spider-feedback@bytedance.com)",
		},
		{"AhrefsBot", "Mozilla/5.0 (compatible; AhrefsBot/7.0; +http://ahrefs.com/robot/)"},
		{"SemrushBot", "Mozilla/5.0 (compatible; SemrushBot/7~bl; +http://www.semrush.com/bot.html)"},
		{"facebookexternalhit", "facebookexternalhit/1.1 (+http://www.facebook.com/externalhit_uatext.php)"},
		{"Twitterbot", "Twitterbot/1.0"},
		{"Slackbot", "Slackbot-LinkExpanding 1.0 (+https://api.slack.com/robots)"},
		{"WhatsApp's preview", "WhatsApp/2.23.20.0"},
		{"Viber's preview", "Viber"},
		{"UptimeRobot", "Mozilla/5.0+(compatible; UptimeRobot/2.0; http://www.uptimerobot.com/)"},
		{"Pingdom", "Mozilla/5.0 (Unknown; Linux x86_64) AppleWebKit/538.1 (KHTML, like Gecko) Pingdom.com_bot_version_1.4"},
		{
			name:      "Lighthouse",
			userAgent: "Mozilla/5.0 (Linux; Android 11; moto g power (2022)) AppleWebKit/537.36 (KHTML, like Gecko) Chrome/142.0.0.0 Mobile Safari/537.36 Chrome-Lighthouse",
		},
		{"an unknown bot", "Mozilla/5.0 (Windows NT 10.0) AcmeBot/1.0"},
		{"an unknown crawler with a mailbox", "Acme research (contact us: web@acme.example)"},
		{
			name:      "a bot on a CUBOT phone",
			userAgent: "Mozilla/5.0 (Linux; Android 12; CUBOT NOTE 21) AppleWebKit/537.36 (KHTML, like Gecko) Chrome/138.0.0.0 Mobile Safari/537.36 SomeBot/1.0",
		},

		{"headless Chrome", "Mozilla/5.0 (X11; Linux x86_64) AppleWebKit/537.36 (KHTML, like Gecko) HeadlessChrome/142.0.0.0 Safari/537.36"},
		{"headless Edge", onWindows + "HeadlessChrome/142.0.0.0 Safari/537.36 HeadlessEdg/142.0.0.0"},
		{"headless Firefox", "Mozilla/5.0 (X11; Linux x86_64; rv:145.0; Headless) Gecko/20100101 Firefox/145.0"},
		{"PhantomJS", "Mozilla/5.0 (Unknown; Linux x86_64) AppleWebKit/538.1 (KHTML, like Gecko) PhantomJS/2.1.1 Safari/538.1"},
		{"SlimerJS", "Mozilla/5.0 (X11; Linux x86_64; rv:21.0) Gecko/20100101 SlimerJS/0.7"},
		{"Puppeteer", onWindows + "Chrome/142.0.0.0 Safari/537.36 Puppeteer"},
		{"Playwright", "Playwright/1.56.0 (x64; ubuntu 24.04) node/22.20"},
		{"Selenium", "Mozilla/5.0 (X11; Linux x86_64) Selenium/4.38 Firefox/145.0"},
		{"HtmlUnit", "Mozilla/5.0 (Windows NT 10.0; Win64; x64) HtmlUnit/4.0"},
		{"jsdom", "Mozilla/5.0 (linux) AppleWebKit/537.36 (KHTML, like Gecko) jsdom/27.0.0"},
		{"Electron in a prerenderer", onWindows + "Chrome/104.0.0.0 Safari/537.36 Prerender (+https://github.com/prerender/prerender)"},
		{"Cypress", onWindows + "Cypress/15.5.0 Chrome/138.0.7204.251 Electron/37.6.0 Safari/537.36"},

		{"curl", "curl/8.17.0"},
		{"libcurl in a longer one", "git/2.51.0 (linux) libcurl/8.17.0"},
		{"Wget", "Wget/1.25.0 (linux-gnu)"},
		{"python-requests", "python-requests/2.32.5"},
		{"aiohttp", "Python/3.14 aiohttp/3.13.2"},
		{"httpx", "python-httpx/0.28.1"},
		{"urllib", "Python-urllib/3.14"},
		{"Scrapy", "Scrapy/2.13.3 (+https://scrapy.org)"},
		{"Go", "Go-http-client/2.0"},
		{"Go, lower case", "go-http-client/1.1"},
		{"resty", "go-resty/2.16.5 (https://github.com/go-resty/resty)"},
		{"okhttp", "okhttp/5.3.0"},
		{"axios", "axios/1.13.2"},
		{"node-fetch", "node-fetch/1.0 (+https://github.com/bitinn/node-fetch)"},
		{"undici", "undici"},
		{"got", "got (https://github.com/sindresorhus/got)"},
		{"Java", "Java/21.0.9"},
		{"Java's newer client", "Java-http-client/25.0.1"},
		{"Apache HttpClient", "Apache-HttpClient/5.5.1 (Java/21.0.9)"},
		{"libwww-perl", "libwww-perl/6.79"},
		{"PHP", "PHP/8.4.14 (cli)"},
		{"Guzzle", "GuzzleHttp/7 (PHP 8.4)"},
		{"Ruby", "Ruby (faraday v2.14)"},
		{"Ruby alone", "Ruby"},
		{"Ruby after a library", "rest-client/2.1.0 (linux x86_64) ruby/3.2.2p53"},
		{"Ruby with a blank", "SomeLibrary 1.0 (linux; ruby 3.2.2)"},
		{"Perl", "Perl-Win32::Internet/0.082"},
		{"Perl with a version", "SomeTool 2 (linux; perl v5.36)"},
		{"LWP", "lwp-request/6.76 libwww-perl/6.79"},
		{"LWP's class", "Mozilla/5.0 (linux) LWP::Simple/6.79"},
		{"curl with words", "curl (linux; example)"},
		{"curl after a program", "Mozilla/5.0 (linux) git curl/8.17.0"},
		{"Wget with a blank", "Wget 1.25 (linux)"},
		{"a spyder", "Spyder/5.4 (windows)"},
		{"factset's crawler", "Mozilla/5.0 (compatible) factset_spyderbot"},
		{"Jakarta's client", "Jakarta Commons-HttpClient/3.1 (linux)"},
		{"a crawler as a phone", inAndroid + "Chrome/142.0.7444.102 Mobile Safari/537.36 (compatible; a; b; c; spider)"},
		{"a crawler with an address", inAndroid + "Chrome/142.0.7444.102 Mobile Safari/537.36 (a; b; c; +https://example.com/crawler)"},
		{
			name:      "a program after an app",
			userAgent: inAndroid + "Chrome/142.0.7444.102 Mobile Safari/537.36 Instagram 333 Android (34/14; 440dpi; 1080x2176; ruby) python-requests/2.32",
		},
		{
			name: "a program before an app",
			userAgent: "python-requests/2.32 " + inAndroid +
				"Chrome/142.0.7444.102 Mobile Safari/537.36 Instagram 333 Android (34/14; 440dpi; 1080x2176; ruby)",
		},
		{"a crawler between lists", inAndroid + "Chrome/142.0.7444.102 Mobile Safari/537.36 App (a; b; c; d) SomeBot/1.0 (a; b; c; d)"},
		{"reqwest", "reqwest/0.12.24 (linux; x86_64)"},
		{"Dart", "Dart/3.10 (dart:io)"},
		{".NET", "Microsoft (Windows) .NET/10.0.0 runtime"},
		{"PowerShell", "Mozilla/5.0 (Windows NT; Windows NT 10.0; de-DE) WindowsPowerShell/5.1.26100.7019"},
		{"Postman", "PostmanRuntime/7.49.1"},
		{"WordPress", "WordPress/6.8.3; https://example.com"},
		{"a scanner", "Mozilla/5.0 zgrab/0.x"},
		{"an injection", "Mozilla/5.0 (x) <?php eval($_GET[1]); ?>"},
	}
	for _, tt := range tests {
		if !bot.Is(tt.userAgent) {
			t.Errorf("%s is taken for a person: %.200s", tt.name, tt.userAgent)
		}
	}
}

// The share of user agents that count as bots, in collections of others. A change of the lists that
// makes these figures worse is not an improvement.
func TestRates(t *testing.T) {
	tests := []struct {
		file          string
		fewest, most  int // bots in entries
		entries       int
		remainingOnes string
	}{
		{"crawlers", 342, 364, 364, "missed are mostly apps in which people read: Alipay, Naver, DuckDuckGo, Reeder"},
		{"browsers", 0, 3, 124, "wrong are three apps and a browser for the Amiga that do not name their operating system"},
		{"current", 0, 0, 159, ""},
	}
	for _, tt := range tests {
		entries := read(t, tt.file)
		bots := 0
		for _, ua := range entries {
			if bot.Is(ua) {
				bots++
			}
		}

		t.Logf("%s: %d of %d are bots (%.1f %%)", tt.file, bots, len(entries), 100*float64(bots)/float64(len(entries)))

		if len(entries) != tt.entries || bots < tt.fewest || bots > tt.most {
			t.Errorf("%s: %d of %d are bots, want %d to %d of %d (%s)", tt.file, bots, len(entries), tt.fewest, tt.most, tt.entries, tt.remainingOnes)
		}
	}
}

// read returns the user agents of a file in testdata. Its first lines name their source.
func read(t testing.TB, name string) []string {
	t.Helper()

	text, err := os.ReadFile("testdata/" + name + ".txt")
	testkit.NoError(t, err)

	var all []string
	for line := range strings.Lines(string(text)) {
		if line = strings.TrimSuffix(line, "\n"); line != "" && line[0] != '#' {
			all = append(all, line)
		}
	}

	return all
}

func FuzzIs(f *testing.F) {
	for _, ua := range []string{
		"", "@", "a@b.c", "compatible;", "\xff\xfe\x00 (", "CUBOT (Android) bot", onWindows + "Chrome/142.0.0.0",
		"İ ( ſpider K",
	} {
		f.Add(ua)
	}

	f.Fuzz(func(t *testing.T, ua string) {
		if got, again := bot.Is(ua), bot.Is(strings.Clone(ua)); got != again {
			t.Errorf("Is(%q) = %v, then %v", ua, got, again)
		}
	})
}

// No result is cached, so that a user agent takes the same time on every call.
func BenchmarkIs(b *testing.B) {
	for _, bb := range []struct{ name, userAgent string }{
		{"Chrome", onWindows + "Chrome/142.0.0.0 Safari/537.36"},
		{"Instagram", onIPhone + "Mobile/15E148 Instagram 405.0.0.31.73 (iPhone16,1; iOS 18_7; en_US; en; scale=3.00; 1179x2556; 812345678)"},
		{"CUBOT", "Mozilla/5.0 (Linux; Android 12; CUBOT NOTE 21) AppleWebKit/537.36 (KHTML, like Gecko) Chrome/138.0.0.0 Mobile Safari/537.36"},
		{
			name:      "Googlebot",
			userAgent: "Mozilla/5.0 (Linux; Android 6.0.1; Nexus 5X Build/MMB29P) AppleWebKit/537.36 (KHTML, like Gecko) Chrome/142.0.7444.59 Mobile Safari/537.36 (compatible; Googlebot/2.1; +http://www.google.com/bot.html)",
		},
		{"made to be slow", "(" + strings.Repeat(" ", 1984) + strings.Repeat("xcurlx ", 8)},
	} {
		b.Run(bb.name, func(b *testing.B) {
			// The first call loads the lists.
			bot.Is("")
			b.ReportAllocs()
			for b.Loop() {
				bot.Is(bb.userAgent)
			}
		})
	}

	b.Run("all fixtures in turn", func(b *testing.B) {
		all := append(append(read(b, "crawlers"), read(b, "browsers")...), read(b, "current")...)
		b.ReportAllocs()
		for i := 0; b.Loop(); i++ {
			bot.Is(all[i%len(all)])
		}
	})
}
