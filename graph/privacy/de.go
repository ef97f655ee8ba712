package privacy

var german = phrases{
	Title:    "Messung der Besuche von %s",
	Complete: "Zu ergänzen",
	Check:    "Zu prüfen",

	ResponsibleTitle: "Verantwortlicher",
	Controller: "Name, Anschrift und Kontakt des Verantwortlichen, gegebenenfalls Kontakt des oder der " +
		"Datenschutzbeauftragten",
	Purpose: "Wir messen, wie die Website %s genutzt wird, um zu erfahren, welche Seiten gelesen werden, wie Besucher " +
		"zu ihnen finden und was verbessert werden kann.",
	ExtraDomains: "Die Messung umfasst auch Seiten auf %s.",

	DeviceTitle: "Was auf Ihrem Gerät geschieht",
	Script: "Unsere Seiten laden ein Skript der Analysesoftware Tallygate vom Server %s. Was es misst, sendet es " +
		"nur an " +
		"diesen Server.",
	NoCookie: "Das Skript setzt keine Cookies und speichert nichts auf Ihrem Gerät, und es liest weder Cookies noch " +
		"andere Speicher Ihres Browsers.",
	ScriptReads: "Von Ihrem Gerät sendet es die Breite des Bildschirms und die Sprache des Browsers, und keine anderen " +
		"Eigenschaften.",
	Queries:       "Von den Parametern der Adressen werden nur Kampagnenwerte und Klick-IDs gemessen.",
	QueriesSearch: "Von den Parametern der Adressen werden nur Kampagnenwerte, Klick-IDs und Suchbegriffe gemessen.",
	DoNotTrack: "Ist in Ihrem Browser „Do Not Track“ oder „Global Privacy Control“ eingeschaltet, so sendet das Skript " +
		"nichts.",
	ServerEvents: "Auch unser eigener Server kann dem Analyseserver Ereignisse melden. Dabei sendet er die " +
		"IP-Adresse und " +
		"die Browserkennung (User-Agent), die Ihr Browser uns übermittelt hat. Sie werden dort für das Pseudonym und " +
		"für " +
		"die Entscheidung verwendet, ob das Ereignis weggelassen wird, und nicht gespeichert. Diese Meldungen kommen " +
		"nicht vom Skript, und das Skript kann sie deshalb nicht zurückhalten.",
	ServerOptOut: "welche Ereignisse Ihr Server meldet, und ob er Besucher mit „Do Not Track“ auslässt",

	StoredTitle: "Was gespeichert wird",
	OfPageview:  "Von jedem Seitenaufruf:",
	Time:        "seine Zeit",
	Path:        "der Pfad der Seite, zum Beispiel /ueber-uns, ohne Parameter und Sprungmarke ihrer Adresse",
	Language:    "die Sprache des Browsers, als zwei Buchstaben",
	Width:       "die Breite des Bildschirms als einer von sieben Bereichen, zum Beispiel 768 bis 991 Pixel",
	Engagement:  "wie lange die Seite sichtbar war und wie weit sie gescrollt wurde",
	PageviewID:  "eine Zufallszahl des Seitenaufrufs, und ob die Seite ihn selbst gemeldet hat",
	OfVisit:     "Von jedem Besuch, also einer Folge von Seitenaufrufen mit weniger als 30 Minuten Abstand:",
	Pseudonym:   "ein Pseudonym des Tages, das unten beschrieben ist",
	VisitTimes: "die Zeiten seines Beginns und seines letzten Seitenaufrufs, die Zahl der Seitenaufrufe, und Merkmale " +
		"der letzten Seitenaufrufe, an denen wiederholte Nachrichten erkannt werden",
	Referrer: "die Seite einer anderen Website, von der Sie gekommen sind: ihr Host und ihr Pfad",
	Channel: "der Weg, auf dem Sie gekommen sind, zum Beispiel eine Suchmaschine oder eine E-Mail, abgeleitet von der " +
		"verweisenden Seite und der Kampagne",
	Campaign: "Kampagnenwerte in der Adresse, mit der Sie gekommen sind (`utm_source`, `utm_medium`, `utm_campaign`, " +
		"`utm_content`, `utm_term`)",
	ClickIDs: "Klick-IDs, die Werbeplattformen dieser Adresse hinzugefügt haben (`gclid`, `gbraid`, `wbraid`, " +
		"`fbclid`, " +
		"`msclkid`)",
	Hostname:    "der Hostname der Seite",
	Country:     "das Land, ohne Region und Ort",
	Browser:     "der Name des Browsers ohne seine Version, zum Beispiel Firefox",
	System:      "der Name des Betriebssystems ohne seine Version, zum Beispiel Android",
	Device:      "die Klasse des Geräts: Desktop, Telefon, Tablet oder Fernseher",
	VisitUserID: "eine pseudonyme Nutzer-ID, falls unsere Website eine gesendet hat",
	OfEvent: "Von den folgenden Ereignissen: ihre Zeit, die Seite, der Besuch und die hier genannten Werte. Wir " +
		"speichern diese Ereignisse:",
	Links: "Klicks auf Links zu anderen Websites, mit dem Host der anderen Website, und Klicks auf Links zu Dateien, " +
		"mit Name und Art der Datei",
	ScrollEvent: "das Scrollen bis 90 % einer Seite",
	Search:      "Suchen auf unserer Website, mit dem Suchbegriff von höchstens 100 Zeichen",
	Shop: "das Ansehen eines Produkts, das Legen in den Warenkorb, der Beginn einer Bestellung, Käufe und " +
		"Erstattungen, " +
		"mit Nummer, Name, Preis und Menge der Produkte, Bestellnummer, Betrag und Währung, und mit weiteren Werten, " +
		"die unsere Website hinzufügt",
	OwnEvents:        "eigene Ereignisse, mit den Werten, die unsere Website ihnen hinzufügt: %s.",
	OwnEventsMeaning: "was diese Ereignisse bedeuten und welche Werte sie haben",
	NoEvents:         "Außer Seitenaufrufen werden keine Ereignisse gespeichert.",
	UserID: "Unsere Website kann eine pseudonyme Nutzer-ID senden: einen Hash (SHA-256) eines Merkmals Ihres " +
		"Nutzerkontos. " +
		"Der Analyseserver speichert davon einen weiteren Hash, der mit einem geheimen Schlüssel gebildet wird und auf " +
		"jeder Website anders ist. Mit dieser ID werden Ihre Besuche an verschiedenen Tagen als Besuche eines Nutzers " +
		"gezählt.",
	UserIDWhen: "wann Ihre Website die ID sendet, und woraus sie berechnet wird",
	Refused: "Nachrichten, die nicht angenommen werden, zum Beispiel Nachrichten von Suchrobotern, werden nach Tag und " +
		"Grund gezählt; Namen von Ereignissen, die nicht angenommen werden, bleiben 30 Tage gespeichert.",
	ExcludedPaths: "Nachrichten von einigen unserer Seiten werden nicht gespeichert.",
	ReferrerSpam:  "Nachrichten, die eine bekannte Werbeseite als verweisende Seite nennen, werden nicht gespeichert.",

	AddressTitle: "IP-Adresse und Browserkennung",
	Transmitted: "Mit jeder Nachricht übermittelt Ihr Browser seine IP-Adresse und seine Browserkennung " +
		"(User-Agent), die " +
		"den Browser und das Betriebssystem nennt.",
	Hash: "Aus beiden und aus der Nummer der Website berechnet der Server mit einem Hash mit Schlüssel " +
		"(HMAC-SHA-256) ein " +
		"Pseudonym von 64 Bit. Es gilt für einen Tag (UTC) und ist auf jeder Website anders.",
	DaySalt: "Der Schlüssel wird aus einem geheimen Schlüssel des Servers, dem Datum und einem Zufallswert des Tages " +
		"gebildet. Der Zufallswert wird gelöscht, sobald seit dem Ende des Tages 24 Stunden vergangen sind. Danach " +
		"kann " +
		"das Pseudonym nicht mehr aus IP-Adresse und Browserkennung berechnet werden.",
	DaysApart: "Weil das Pseudonym jeden Tag wechselt, werden Besuche an verschiedenen Tagen nicht verbunden.",
	DaysApartWithUserID: "Weil das Pseudonym jeden Tag wechselt, werden Besuche an verschiedenen Tagen nicht " +
		"verbunden, " +
		"außer wenn sie dieselbe Nutzer-ID tragen.",
	AlsoUsed: "Während der Server eine Nachricht verarbeitet, verwendet er IP-Adresse und Browserkennung " +
		"außerdem, um",
	Limits:            "Missbrauch zu begrenzen: Er zählt in seinem Arbeitsspeicher die Nachrichten je Netz",
	Bots:              "Suchroboter und andere Programme auszulassen, die sich zu erkennen geben",
	ExcludedAddresses: "Nachrichten aus Netzen auszulassen, die wir ausschließen",
	CountryLookup:     "das Land der Adresse in einer Datei auf dem Server nachzuschlagen, ohne Anfrage an Dritte",
	ExcludedCountries: "Nachrichten aus einigen Ländern auszulassen (%s)",
	CountryNotStored:  ", ohne das Land zu speichern",
	DataCentres:       "Nachrichten aus Netzen von Rechenzentren auszulassen, die in einer Liste auf dem Server stehen",
	DeriveBrowser:     "den Namen des Browsers abzuleiten",
	DeriveSystem:      "den Namen des Betriebssystems abzuleiten",
	DeriveDevice:      "die Klasse des Geräts abzuleiten",
	Hints: "Für das, was er ableitet, liest der Server auch drei Kopfzeilen, die manche Browser mit jeder Anfrage " +
		"senden " +
		"(`Sec-CH-UA`, `Sec-CH-UA-Platform`, `Sec-CH-UA-Mobile`), und speichert sie nicht.",
	NotStored: "Die IP-Adresse und die Browserkennung werden nicht gespeichert.",
	NothingOfBrowser: "Von neuen Besuchen werden weder Land noch Browser, Betriebssystem oder Klasse des Geräts " +
		"gespeichert.",

	DurationTitle: "Wie lange es gespeichert wird",
	RowsForever: "Besuche, Seitenaufrufe und Ereignisse werden ohne feste Frist gespeichert, bis wir die Daten der " +
		"Website löschen lassen.",
	RowsOneMonth: "Besuche, Seitenaufrufe und Ereignisse werden für den laufenden und den vorigen Kalendermonat " +
		"gespeichert und danach gelöscht.",
	RowsMonths: "Besuche, Seitenaufrufe und Ereignisse werden für den laufenden Kalendermonat und die %d Monate davor " +
		"gespeichert und danach gelöscht.",
	ReportsForever: "Kopien dieser Werte ohne das Pseudonym, aus denen Berichte gezählt werden, werden ohne feste " +
		"Frist " +
		"gespeichert.",
	ReportsOneMonth: "Kopien dieser Werte ohne das Pseudonym, aus denen Berichte gezählt werden, werden für den " +
		"laufenden " +
		"und den vorigen Kalendermonat gespeichert.",
	ReportsMonths: "Kopien dieser Werte ohne das Pseudonym, aus denen Berichte gezählt werden, werden für den " +
		"laufenden " +
		"Kalendermonat und die %d Monate davor gespeichert.",
	SaltDuration: "Der Zufallswert eines Tages wird von einer stündlichen Aufgabe gelöscht, sobald seit dem Ende " +
		"des Tages " +
		"24 Stunden vergangen sind.",
	CountsDuration: "Zahlen von Nachrichten je Tag oder Monat, die keinen einzelnen Besucher betreffen, werden bis " +
		"zu 25 Monate gespeichert.",
	TransactionDuration: "Bestellnummern werden mit ihren Zeiten gespeichert, bis die Daten der Website gelöscht " +
		"werden, damit kein Kauf " +
		"doppelt zählt.",
	DeliveryDuration: "Nachrichten an die unten genannten Empfänger werden 30 Tage gespeichert.",
	SiteDeletion: "Löschen wir die Website aus dem Analysedienst, so werden alle diese Daten sofort gelöscht oder " +
		"nach 7 " +
		"Tagen, in denen die Löschung zurückgenommen werden kann.",

	RecipientsTitle: "Wer es erhält",
	Operator:        "Die Daten werden auf dem Server des Betreibers dieses Analysedienstes gespeichert.",
	OperatorName: "Name und Anschrift des Betreibers und Land des Servers; falls Sie nicht selbst der Betreiber " +
		"sind, der " +
		"Vertrag nach Art. 28 DSGVO; ob ein Webserver oder Proxy des Betreibers ein eigenes Protokoll führt; wie lange " +
		"Sicherungen aufbewahrt werden",
	Members: "Personen, denen wir Zugang geben, können die Berichte lesen und die gespeicherten Daten herunterladen.",
	Conversions: "An den Server %s meldet der Analyseserver jedes dieser Ereignisse, kurz nachdem es geschehen " +
		"ist: %s. " +
		"Die Meldung enthält Name, Zeit und Seite des Ereignisses, Betrag, Währung und Bestellnummer, falls es sie " +
		"hat, " +
		"und den Weg, die Kampagne und die Klick-IDs, mit denen Sie gekommen sind. Sie enthält weder IP-Adresse noch " +
		"Browserkennung noch Pseudonym.",
	NoConversions: "Für Meldungen wichtiger Ereignisse ist der Server %s eingetragen; derzeit wird keines unserer " +
		"Ereignisse " +
		"gemeldet.",
	Export: "An den Server %s sendet der Analyseserver nach dem Ende jedes Tages alle Ereignisse des Tages, mit " +
		"den oben " +
		"genannten Werten der Ereignisse und Besuche, auch mit dem Pseudonym des Tages.",
	ExportUserID:    "Auch die Nutzer-ID gehört zu diesen Werten.",
	ReceiverPurpose: "wer diesen Server betreibt, und zu welchem Zweck",
	SmallGroups: "Wenn wir Berichte durch einen Link teilen, werden Werte der folgenden Arten, die weniger als %d " +
		"Besucher " +
		"des Zeitraums haben, nur zusammen gezeigt: %s.",
	LanguageNoun: "Sprache",
	WidthNoun:    "Breite des Bildschirms",
	CountryNoun:  "Land",
	BrowserNoun:  "Browser",
	SystemNoun:   "Betriebssystem",
	DeviceNoun:   "Klasse des Geräts",

	BasisTitle: "Rechtsgrundlage",
	Interest: "Wir messen auf der Grundlage berechtigter Interessen (Art. 6 Abs. 1 lit. f DSGVO). Unser Interesse " +
		"ist, zu " +
		"wissen, wie unsere Website genutzt wird, und sie zu verbessern, mit wenigen Daten.",
	InterestCheck: "dies ist ein Vorschlag; ob er für Ihre Website zutrifft, und ob Klick-IDs und die Werte, die Ihre " +
		"Website sendet, eine andere Grundlage brauchen",
	UserIDBasis: "Nutzer-IDs verbinden Besuche an mehreren Tagen mit einer Person, die Sie vielleicht kennen; " +
		"nennen Sie " +
		"Ihre Rechtsgrundlage, zum Beispiel eine Einwilligung (Art. 6 Abs. 1 lit. a DSGVO)",
	ShopBasis: "Bestellnummern verbinden einen Besuch mit einem Kunden, den Sie kennen; nennen Sie Ihre Rechtsgrundlage",
	Terminal: "Das Skript speichert nichts auf Ihrem Gerät und liest keinen seiner Speicher (§ 25 TDDDG, Art. 5 " +
		"Abs. 3 der " +
		"Richtlinie 2002/58/EG). Es verwendet, was der Browser mit jeder Anfrage übermittelt und was er jeder Seite " +
		"bereitstellt, die er anzeigt: Adressen, Sprache, Breite des Bildschirms, und was Sie auf der Seite tun.",
	TerminalCheck: "ob auch Sie der Ansicht sind, dass dies keine Einwilligung erfordert",

	RightsTitle: "Ihre Rechte",
	Rights: "Sie haben im Rahmen der Gesetze das Recht auf Auskunft, Berichtigung, Löschung, Einschränkung der " +
		"Verarbeitung " +
		"und Datenübertragbarkeit, und das Recht, sich bei einer Aufsichtsbehörde zu beschweren.",
	Objection: "Sie können der Verarbeitung jederzeit aus Gründen widersprechen, die sich aus Ihrer besonderen " +
		"Situation " +
		"ergeben (Art. 21 DSGVO). Wenn Sie in Ihrem Browser „Do Not Track“ oder „Global Privacy Control“ einschalten, " +
		"sendet das Skript nichts.",
	Assignable: "In der Regel können wir Ihnen die gespeicherten Daten nicht zuordnen, weil sie weder Ihren Namen " +
		"noch Ihre " +
		"IP-Adresse enthalten (Art. 11 DSGVO).",
	AssignableWithUserID: "Die Besuche, die Ihre Nutzer-ID tragen, können wir finden und mit ihren Seitenaufrufen und " +
		"Ereignissen löschen. Der Vermerk über die Löschung enthält den Hash der Nutzer-ID 30 Tage. Andere Daten " +
		"können wir Ihnen in der Regel nicht zuordnen, weil sie weder Ihren Namen noch " +
		"Ihre IP-Adresse enthalten (Art. 11 DSGVO).",
}
