package bot

// amendments replaces patterns of the public list that also match a browser, or an app in which
// people open pages. A replacement still matches the crawler; an empty one drops the pattern.
var amendments = map[string]string{
	// The built-in browsers of editors, and of the apps of Facebook and Instagram.
	`Code\/1\.`:        "",
	`Trae\/`:           "",
	`MetaIAB Facebook`: "",

	// Site-specific browsers of the Mac, and Slack's app in the Windows store. Other patterns match
	// the crawlers, which contain their address.
	`Fluid`: "",
	`Sonic`: "",

	// Phone makers and models.
	`Butterfly`: `Butterfly/`, // HTC Butterfly
	`Fever`:     `^Fever/`,    // Wiko Fever

	// Browsers with the name of their maker's crawler: Sogou Explorer and its mobile browser,
	// Mail.ru's Amigo.
	`Sogou`:    `Sogou .*[sS]pider`,
	`mail\.ru`: "",

	// Apps that append their name to a browser's user agent, while their servers' begins with it.
	`Asana\/`:      `^Asana/`,
	`Blackboard`:   `^Blackboard`,
	`Bluesky\/`:    `^Bluesky/`,
	`Feedly`:       `^Feedly`,
	`Goodreads`:    `compatible; Goodreads`,
	`Hatena`:       `^Hatena`,
	`Instapaper\/`: `^Instapaper/`,
	`Jumio`:        `^Jumio`,
	`Notion\/`:     `^Notion/`,
	`PayPal\/`:     `^PayPal/`,
	`Readable\/`:   "",
	`Tumblr\/`:     `^Tumblr/`,
	`Viber`:        `^Viber`,
	`WhatsApp`:     `^WhatsApp`,
}
