package bot

// amendments corrects patterns of the public list that also name a browser or an app in which
// people open pages. The replacement still finds the crawler; an empty one drops the pattern.
var amendments = map[string]string{
	// The built-in browsers of editors, and of the apps of Facebook and Instagram.
	`Code\/1\.`:        "",
	`Trae\/`:           "",
	`MetaIAB Facebook`: "",

	// Site-specific browsers of the Mac, and Slack's app in the Windows store. The crawlers leave
	// their address.
	`Fluid`: "",
	`Sonic`: "",

	// Makers and models of phones.
	`Butterfly`: `Butterfly/`, // HTC Butterfly
	`Fever`:     `^Fever/`,    // Wiko Fever

	// Browsers named like their maker's crawler: Sogou Explorer and its mobile browser, Mail.ru's
	// Amigo.
	`Sogou`:    `Sogou .*[sS]pider`,
	`mail\.ru`: "",

	// Apps that put their name at the end of a browser's, while their servers begin with it.
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
