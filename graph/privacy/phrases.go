package privacy

import "github.com/tallygate/tallygate/db/model"

// languages has the phrases of every language.
var languages = map[model.Language]*phrases{model.English: &english, model.German: &german}

// phrases are the sentences and names of one language, in the order of the text. Which of them a
// text has depends on the facts alone, so all languages have the same sections.
type phrases struct {
	Title           string // domain
	Complete, Check string // begin marks for the owner

	ResponsibleTitle, Controller string
	Purpose                      string // domain
	ExtraDomains                 string // domains

	DeviceTitle                       string
	Script                            string // host
	NoCookie, ScriptReads, DoNotTrack string
	Queries, QueriesSearch            string
	ServerEvents, ServerOptOut        string

	StoredTitle                                         string
	OfPageview                                          string
	Time, Path, Language, Width, Engagement, PageviewID string
	OfVisit                                             string
	Pseudonym, VisitTimes                               string
	Referrer, Channel, Campaign, ClickIDs               string
	Hostname, Country, Browser, System, Device          string
	VisitUserID                                         string
	OfEvent, Links, ScrollEvent, Search, Shop           string
	OwnEvents                                           string // names
	OwnEventsMeaning, NoEvents                          string
	UserID, UserIDWhen                                  string
	Refused, ExcludedPaths, ReferrerSpam                string

	AddressTitle, Transmitted, Hash, DaySalt  string
	DaysApart, DaysApartWithUserID            string
	AlsoUsed, Limits, Bots, ExcludedAddresses string
	CountryLookup                             string
	ExcludedCountries                         string // codes
	CountryNotStored                          string // follows the sentence before
	DataCentres                               string
	DeriveBrowser, DeriveSystem, DeriveDevice string
	Hints, NotStored, NothingOfBrowser        string

	DurationTitle                    string
	RowsForever, RowsOneMonth        string
	RowsMonths                       string // number
	ReportsForever, ReportsOneMonth  string
	ReportsMonths                    string // number
	SaltDuration, CountsDuration     string
	TransactionDuration              string
	DeliveryDuration, SiteDeletion   string
	RecipientsTitle, Operator        string
	OperatorName, Members            string
	Conversions                      string // host, names
	NoConversions, Export            string // host
	ExportUserID, ReceiverPurpose    string
	SmallGroups                      string // number, values
	LanguageNoun, WidthNoun          string
	CountryNoun, BrowserNoun         string
	SystemNoun, DeviceNoun           string
	BasisTitle, Interest             string
	InterestCheck                    string
	UserIDBasis, ShopBasis           string
	Terminal, TerminalCheck          string
	RightsTitle, Rights, Objection   string
	Assignable, AssignableWithUserID string
}
