package privacy

var english = phrases{
	Title:    "Measuring visits to %s",
	Complete: "To complete",
	Check:    "To check",

	ResponsibleTitle: "Who is responsible",
	Controller: "name, address and contact of the controller, and contact of the data protection officer if there is " +
		"one",
	Purpose: "We measure how the website %s is used, to find out which pages are read, how visitors found them and " +
		"what can be improved.",
	ExtraDomains: "The measurement includes pages on %s.",

	DeviceTitle: "What happens on your device",
	Script: "Our pages load a script of the analytics software Tallygate from the server %s. It sends what it measures " +
		"to this server only.",
	NoCookie: "The script sets no cookies and stores nothing on your device, and it reads neither cookies nor other " +
		"storage of your browser.",
	ScriptReads: "Of your device, it sends the width of the screen and the language of the browser, and no other " +
		"properties.",
	Queries:       "Of the queries of addresses, only campaign values and click ids are measured.",
	QueriesSearch: "Of the queries of addresses, only campaign values, click ids and search terms are measured.",
	DoNotTrack:    "If Do Not Track or Global Privacy Control is on in your browser, the script sends nothing.",
	ServerEvents: "Our own server can report events to the analytics server, too. It then sends the IP address and the " +
		"user agent that your browser has sent to us. There these are used for the pseudonym and to decide whether the " +
		"event is left out, and are not stored. These reports do not come from the script, so the script cannot " +
		"withhold them.",
	ServerOptOut: "which events your server reports, and whether it leaves out visitors with Do Not Track",

	StoredTitle: "What is stored",
	OfPageview:  "Of each page view:",
	Time:        "its time",
	Path:        "the path of the page, such as /about, without the query and the fragment of its address",
	Language:    "the language of the browser, as two letters",
	Width:       "the width of the screen as one of seven ranges, such as 768 to 991 pixels",
	Engagement:  "for how long the page was in view, and how far it was scrolled",
	PageviewID:  "a random number of the page view, and whether the page itself reported it",
	OfVisit:     "Of each visit, which is a sequence of page views with less than 30 minutes between them:",
	Pseudonym:   "a pseudonym for the day, as described below",
	VisitTimes: "the times of its beginning and of its last page view, the number of its page views, and marks of the " +
		"latest page views by which repeated messages are recognised",
	Referrer: "the page of another website from which you came: its host and path",
	Channel: "the way in which you came, such as a search engine or an e-mail, as derived from the referring page " +
		"and the campaign",
	Campaign: "campaign values in the address with which you came (`utm_source`, `utm_medium`, `utm_campaign`, " +
		"`utm_content`, `utm_term`)",
	ClickIDs: "click ids that advertising platforms have added to this address (`gclid`, `gbraid`, `wbraid`, `fbclid`, " +
		"`msclkid`)",
	Hostname:    "the host name of the page",
	Country:     "the country, without region or city",
	Browser:     "the name of the browser without its version, such as Firefox",
	System:      "the name of the operating system without its version, such as Android",
	Device:      "the class of the device: desktop, phone, tablet or TV",
	VisitUserID: "a pseudonymous user id, if our website has sent one",
	OfEvent: "Of the following events: their time, the page, the visit and the values named here. We store these " +
		"events:",
	Links: "clicks on links to other websites, with the host of the other website, and clicks on links to files, " +
		"with the name and the kind of the file",
	ScrollEvent: "scrolling to 90 % of a page",
	Search:      "searches on our website, with the search term of at most 100 characters",
	Shop: "viewing a product, adding it to the cart, the beginning of a checkout, purchases and refunds, with number, " +
		"name, price and quantity of the products, the order number, amount and currency, and with other values that " +
		"our website adds",
	OwnEvents:        "events of our own, with the values that our website adds to them: %s.",
	OwnEventsMeaning: "what these events mean and which values they have",
	NoEvents:         "No events other than page views are stored.",
	UserID: "Our website can send a pseudonymous user id: a hash (SHA-256) of a characteristic of your user " +
		"account. The " +
		"analytics server stores a further hash of it, which is made with a secret key and differs on each website. By " +
		"this id your visits on different days are counted as one user's.",
	UserIDWhen: "when your website sends the id, and from what it is computed",
	Refused: "Messages that are not accepted, such as messages of search robots, are counted by day and reason; names " +
		"of events that are not accepted are kept for 30 days.",
	ExcludedPaths: "Messages from some of our pages are not stored.",
	ReferrerSpam:  "Messages that name a known advertising page as the referring page are not stored.",

	AddressTitle: "IP address and user agent",
	Transmitted: "With each message your browser transmits its IP address and its user agent, which names the browser " +
		"and the operating system.",
	Hash: "From both, and from the website's number, the server computes a pseudonym of 64 bits by a keyed hash " +
		"(HMAC-SHA-256). It is valid for one day (UTC) and differs on each website.",
	DaySalt: "The key is made of a secret key of the server, the date, and a random value of the day. The random " +
		"value is " +
		"deleted once 24 hours have passed since the end of the day. After that, the pseudonym cannot be computed " +
		"again from an IP address and a user agent.",
	DaysApart: "Since the pseudonym changes every day, visits on different days are not connected.",
	DaysApartWithUserID: "Since the pseudonym changes every day, visits on different days are not connected unless " +
		"they " +
		"carry the same user id.",
	AlsoUsed:          "The server also uses the IP address and the user agent while it processes a message, in order to",
	Limits:            "limit abuse: it counts messages by network in its memory",
	Bots:              "leave out search robots and other programs that name themselves",
	ExcludedAddresses: "leave out messages from networks that we exclude",
	CountryLookup:     "look up the country of the address in a file on the server, without a request to others",
	ExcludedCountries: "leave out messages from some countries (%s)",
	CountryNotStored:  ", without storing the country",
	DataCentres:       "leave out messages from networks of data centres, which are in a list on the server",
	DeriveBrowser:     "derive the name of the browser",
	DeriveSystem:      "derive the name of the operating system",
	DeriveDevice:      "derive the class of the device",
	Hints: "For what it derives, the server also reads three headers that some browsers send with each request " +
		"(`Sec-CH-UA`, `Sec-CH-UA-Platform`, `Sec-CH-UA-Mobile`), and does not store them.",
	NotStored:        "The IP address and the user agent are not stored.",
	NothingOfBrowser: "New visits keep neither a country, nor a browser, operating system or class of device.",

	DurationTitle: "How long it is stored",
	RowsForever: "Visits, page views and events are stored without a fixed end, until we have the website's data " +
		"deleted.",
	RowsOneMonth: "Visits, page views and events are stored for the current and the previous calendar month, and then " +
		"deleted.",
	RowsMonths: "Visits, page views and events are stored for the current calendar month and the %d months before it, " +
		"and then deleted.",
	ReportsForever: "Copies of these values without the pseudonym, from which reports are counted, are stored " +
		"without a fixed " +
		"end.",
	ReportsOneMonth: "Copies of these values without the pseudonym, from which reports are counted, are stored for the " +
		"current and the previous calendar month.",
	ReportsMonths: "Copies of these values without the pseudonym, from which reports are counted, are stored for the " +
		"current calendar month and the %d months before it.",
	SaltDuration: "The random value of a day is deleted by an hourly task once 24 hours have passed since the end " +
		"of the " +
		"day.",
	CountsDuration: "Counts of messages by day or month, which concern no single visitor, are stored for up " +
		"to 25 months.",
	TransactionDuration: "Order numbers are stored with their times until the website's data is deleted, so that " +
		"no purchase counts twice.",
	DeliveryDuration: "Messages to the receivers named below are stored for 30 days.",
	SiteDeletion: "If we delete the website from the analytics service, all of this data is deleted at once or after 7 " +
		"days, during which the deletion can be undone.",

	RecipientsTitle: "Who receives it",
	Operator:        "The data is stored on the server of the operator of this analytics service.",
	OperatorName: "the operator's name and address and the country of the server; if you are not the operator, the " +
		"contract under Art. 28 GDPR; whether a web server or proxy of the operator keeps a log of its own; how long " +
		"backups are kept",
	Members: "The persons to whom we give access can read the reports and download the stored data.",
	Conversions: "To the server %s, the analytics server reports each of these events shortly after it has " +
		"happened: %s. " +
		"The report has the event's name, time and page, its amount, currency and order number if it has them, and " +
		"the way, the campaign and the click ids with which you came. It has no IP address, user agent or pseudonym.",
	NoConversions: "The server %s is entered as the receiver of reports of key events; at present none of our " +
		"events is " +
		"reported.",
	Export: "To the server %s, the analytics server sends all events of a day after the day has ended, with the " +
		"values of " +
		"events and visits that are named above, including the pseudonym of the day.",
	ExportUserID:    "The user id is among these values.",
	ReceiverPurpose: "who operates this server, and for what purpose",
	SmallGroups: "If we share reports by a link, values of the following kinds that fewer than %d visitors of the " +
		"period have are shown " +
		"together only: %s.",
	LanguageNoun: "language",
	WidthNoun:    "width of the screen",
	CountryNoun:  "country",
	BrowserNoun:  "browser",
	SystemNoun:   "operating system",
	DeviceNoun:   "class of device",

	BasisTitle: "Legal basis",
	Interest: "We measure on the basis of legitimate interests (Art. 6(1)(f) GDPR). Our interest is to know how our " +
		"website is used and to improve it, with little data.",
	InterestCheck: "this is a proposal; whether it holds for your website, and whether your use of click ids and of " +
		"the values that your pages send needs another basis",
	UserIDBasis: "user ids connect visits over several days with a person whom you may know; name your legal " +
		"basis, such " +
		"as consent (Art. 6(1)(a) GDPR)",
	ShopBasis: "order numbers connect a visit with a customer whom you know; name your legal basis",
	Terminal: "The script stores nothing on your device and reads none of its storage (Section 25 TDDDG, Art. 5(3) of " +
		"Directive 2002/58/EC). It uses what the browser transmits with each request, and what the browser provides to " +
		"each page that it shows: addresses, language, width of the screen, and what you do on the page.",
	TerminalCheck: "whether you agree that this needs no consent",

	RightsTitle: "Your rights",
	Rights: "You have the right of access, rectification, erasure, restriction of processing and data portability, and " +
		"the right to lodge a complaint with a supervisory authority, as far as the law grants them.",
	Objection: "You can object to the processing at any time on grounds relating to your particular situation (Art. 21 " +
		"GDPR). You can keep the script from sending anything by turning on Do Not Track or Global Privacy Control in " +
		"your browser.",
	Assignable: "As a rule we cannot assign the stored data to you, because it has neither your name nor your IP " +
		"address " +
		"(Art. 11 GDPR).",
	AssignableWithUserID: "We can find and erase the visits that carry your user id, with their page views and events. " +
		"The record of the erasure keeps the hash of the user id for 30 days. As " +
		"a rule we cannot assign other data to you, because it has neither your name nor your IP address (Art. 11 " +
		"GDPR).",
}
