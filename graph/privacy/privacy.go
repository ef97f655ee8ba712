// Package privacy writes the text about the measurement that the owner of a site puts into its
// privacy policy. Each sentence states what the program does under the site's settings. The
// resolver of Site.privacyText calls it.
package privacy

import (
	"fmt"
	"slices"
	"strings"

	"github.com/tallygate/tallygate/db/model"
)

// Facts are everything that the text of a site depends on.
type Facts struct {
	Domain       string   // for people
	ExtraDomains []string // likewise
	Server       string   // host that the script is loaded from

	AutomaticEvents  bool
	SiteSearch       bool
	Ecommerce        bool
	RegisteredEvents []string
	UserID           bool
	ServerEvents     bool // the site's server can report events
	Details          []model.VisitDetail

	ExcludedAddresses bool
	ExcludedCountries []string
	ExcludedPaths     bool
	Shields           []model.Shield

	RetentionMonths int // of visits, page views and events; 0: without limit
	ReportMonths    int // of reports; 0: without limit

	ConversionHost string // of the conversion webhook; empty without one
	KeyEvents      []string
	ExportHost     string // of the daily export; empty without one
	SmallGroup     int
}

func (f *Facts) keeps(detail model.VisitDetail) bool { return slices.Contains(f.Details, detail) }

// keepsBrowser reports whether visits keep anything that is derived from the address or the
// browser.
func (f *Facts) keepsBrowser() bool {
	return f.keeps(model.DetailCountry) || f.keepsAgent()
}

// keepsAgent reports whether visits keep anything that is derived from the user agent.
func (f *Facts) keepsAgent() bool {
	return f.keeps(model.DetailBrowser) || f.keeps(model.DetailSystem) || f.keeps(model.DetailDevice)
}

// usesCountry reports whether the country of an address is looked up.
func (f *Facts) usesCountry() bool {
	return f.keeps(model.DetailCountry) || len(f.ExcludedCountries) > 0
}

// storesEvents reports whether the site accepts events of any kind.
func (f *Facts) storesEvents() bool {
	return f.AutomaticEvents || f.Ecommerce || len(f.RegisteredEvents) > 0
}

// searches reports whether search terms are stored. They are automatic events.
func (f *Facts) searches() bool { return f.AutomaticEvents && f.SiteSearch }

// conversions returns the key events that the site stores.
func (f *Facts) conversions() []string {
	return slices.DeleteFunc(slices.Clone(f.KeyEvents), func(name string) bool {
		switch {
		case name == model.EventSiteSearch:
			return !f.searches()
		case model.IsAutomaticEvent(name):
			return !f.AutomaticEvents
		case model.IsEcommerceEvent(name):
			return !f.Ecommerce
		}
		return !slices.Contains(f.RegisteredEvents, name)
	})
}

// Text returns the text in a language, as Markdown; in English for an unknown language.
func Text(language model.Language, f *Facts) string {
	w, ok := languages[language]
	if !ok {
		w = languages[model.English]
	}

	t := &text{phrases: w, f: f}
	t.heading("## ", fmt.Sprintf(w.Title, f.Domain))
	t.responsible()
	t.device()
	t.stored()
	t.address()
	t.duration()
	t.recipients()
	t.basis()
	t.rights()
	return t.out.String()
}

// text is a text that is being written.
type text struct {
	*phrases
	f   *Facts
	out strings.Builder
}

func (t *text) heading(mark, title string) {
	if t.out.Len() > 0 {
		t.out.WriteString("\n")
	}
	t.out.WriteString(mark + title + "\n")
}

// paragraph writes the sentences that are not empty.
func (t *text) paragraph(sentences ...string) {
	if said := given(sentences); len(said) > 0 {
		t.out.WriteString("\n" + strings.Join(said, " ") + "\n")
	}
}

// list writes the items that are not empty, after a sentence that introduces them.
func (t *text) list(introduction string, items ...string) {
	said := given(items)
	if len(said) == 0 {
		return
	}

	t.paragraph(introduction)
	t.out.WriteString("\n")
	for _, item := range said {
		t.out.WriteString("- " + item + "\n")
	}
}

func given(texts []string) []string {
	return slices.DeleteFunc(texts, func(s string) bool { return s == "" })
}

// when returns the sentence if it applies, or an empty text.
func when(applies bool, sentence string) string {
	if !applies {
		return ""
	}
	return sentence
}

// choose returns the sentence of one of two cases.
func choose(first bool, a, b string) string {
	if first {
		return a
	}
	return b
}

// toComplete and toCheck are marks for the owner.
func (t *text) toComplete(what string) string { return "[" + t.Complete + ": " + what + "]" }
func (t *text) toCheck(what string) string    { return "[" + t.Check + ": " + what + "]" }

// code sets names as code, because Markdown gives underscores a meaning.
func code(names []string) string {
	quoted := make([]string, len(names))
	for i, name := range names {
		quoted[i] = "`" + name + "`"
	}
	return strings.Join(quoted, ", ")
}

func (t *text) responsible() {
	f := t.f
	t.heading("### ", t.ResponsibleTitle)
	t.paragraph(t.toComplete(t.Controller))
	t.paragraph(
		fmt.Sprintf(t.Purpose, f.Domain),
		when(len(f.ExtraDomains) > 0, fmt.Sprintf(t.ExtraDomains, strings.Join(f.ExtraDomains, ", "))),
	)
}

func (t *text) device() {
	f := t.f
	t.heading("### ", t.DeviceTitle)
	t.paragraph(fmt.Sprintf(t.Script, f.Server), t.NoCookie, t.ScriptReads,
		choose(f.searches(), t.QueriesSearch, t.Queries), t.DoNotTrack)
	if f.ServerEvents {
		t.paragraph(t.ServerEvents, t.toComplete(t.ServerOptOut))
	}
}

func (t *text) stored() {
	f := t.f
	t.heading("### ", t.StoredTitle)

	t.list(t.OfPageview, t.Time, t.Path, t.Language, t.Width, t.Engagement, t.PageviewID)
	t.list(t.OfVisit,
		t.Pseudonym, t.VisitTimes, t.Referrer, t.Channel, t.Campaign, t.ClickIDs,
		when(f.keeps(model.DetailHostname), t.Hostname),
		when(f.keeps(model.DetailCountry), t.Country),
		when(f.keeps(model.DetailBrowser), t.Browser),
		when(f.keeps(model.DetailSystem), t.System),
		when(f.keeps(model.DetailDevice), t.Device),
		when(f.UserID, t.VisitUserID),
	)

	t.list(t.OfEvent,
		when(f.AutomaticEvents, t.Links),
		when(f.AutomaticEvents, t.ScrollEvent),
		when(f.searches(), t.Search),
		when(f.Ecommerce, t.Shop),
		when(len(f.RegisteredEvents) > 0, fmt.Sprintf(t.OwnEvents, code(f.RegisteredEvents))+" "+t.toComplete(t.OwnEventsMeaning)),
	)
	t.paragraph(when(!f.storesEvents(), t.NoEvents))

	if f.UserID {
		t.paragraph(t.UserID, t.toComplete(t.UserIDWhen))
	}
	t.paragraph(t.Refused, when(f.ExcludedPaths, t.ExcludedPaths),
		when(slices.Contains(f.Shields, model.ShieldReferrerSpam), t.ReferrerSpam))
}

func (t *text) address() {
	f := t.f
	t.heading("### ", t.AddressTitle)
	t.paragraph(t.Transmitted, t.Hash, t.DaySalt, choose(f.UserID, t.DaysApartWithUserID, t.DaysApart))
	t.list(t.AlsoUsed,
		t.Limits,
		t.Bots,
		when(f.ExcludedAddresses, t.ExcludedAddresses),
		when(f.usesCountry(), t.CountryLookup),
		when(len(f.ExcludedCountries) > 0, t.excludedCountries()),
		when(slices.Contains(f.Shields, model.ShieldDataCentres), t.DataCentres),
		when(f.keeps(model.DetailBrowser), t.DeriveBrowser),
		when(f.keeps(model.DetailSystem), t.DeriveSystem),
		when(f.keeps(model.DetailDevice), t.DeriveDevice),
	)
	t.paragraph(when(f.keepsAgent(), t.Hints), t.NotStored, when(!f.keepsBrowser(), t.NothingOfBrowser))
}

func (t *text) excludedCountries() string {
	item := fmt.Sprintf(t.ExcludedCountries, strings.Join(t.f.ExcludedCountries, ", "))
	return item + when(!t.f.keeps(model.DetailCountry), t.CountryNotStored)
}

func (t *text) duration() {
	f := t.f
	t.heading("### ", t.DurationTitle)
	t.paragraph(
		t.months(f.RetentionMonths, t.RowsForever, t.RowsOneMonth, t.RowsMonths),
		t.months(f.ReportMonths, t.ReportsForever, t.ReportsOneMonth, t.ReportsMonths),
	)
	t.paragraph(
		t.SaltDuration,
		t.CountsDuration,
		when(f.Ecommerce, t.TransactionDuration),
		when(f.ConversionHost != "" || f.ExportHost != "", t.DeliveryDuration),
		t.SiteDeletion,
	)
}

// months returns the sentence about a retention.
func (t *text) months(months int, forever, one, several string) string {
	switch months {
	case 0:
		return forever
	case 1:
		return one
	}
	return fmt.Sprintf(several, months)
}

func (t *text) recipients() {
	f := t.f
	t.heading("### ", t.RecipientsTitle)
	t.paragraph(t.Operator, t.toComplete(t.OperatorName))
	t.paragraph(t.Members)
	if events := f.conversions(); f.ConversionHost != "" {
		t.paragraph(choose(len(events) > 0,
			fmt.Sprintf(t.Conversions, f.ConversionHost, code(events)), fmt.Sprintf(t.NoConversions, f.ConversionHost),
		), t.toComplete(t.ReceiverPurpose))
	}
	if f.ExportHost != "" {
		t.paragraph(
			fmt.Sprintf(t.Export, f.ExportHost), when(f.UserID, t.ExportUserID), t.toComplete(t.ReceiverPurpose))
	}
	if f.SmallGroup > 1 {
		t.paragraph(fmt.Sprintf(t.SmallGroups, f.SmallGroup, t.groups()))
	}
}

// groups names the kinds of values with hidden small groups.
func (t *text) groups() string {
	f := t.f
	return strings.Join(given([]string{
		t.LanguageNoun, t.WidthNoun,
		when(f.keeps(model.DetailCountry), t.CountryNoun),
		when(f.keeps(model.DetailBrowser), t.BrowserNoun),
		when(f.keeps(model.DetailSystem), t.SystemNoun),
		when(f.keeps(model.DetailDevice), t.DeviceNoun),
	}), ", ")
}

func (t *text) basis() {
	f := t.f
	t.heading("### ", t.BasisTitle)
	t.paragraph(t.Interest, t.toCheck(t.InterestCheck))
	t.paragraph(when(f.UserID, t.toCheck(t.UserIDBasis)), when(f.Ecommerce, t.toCheck(t.ShopBasis)))
	t.paragraph(t.Terminal, t.toCheck(t.TerminalCheck))
}

func (t *text) rights() {
	f := t.f
	t.heading("### ", t.RightsTitle)
	t.paragraph(t.Rights, t.Objection)
	t.paragraph(choose(f.UserID, t.AssignableWithUserID, t.Assignable))
}
