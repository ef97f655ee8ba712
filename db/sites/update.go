package sites

import (
	"context"
	"errors"
	"fmt"
	"net/netip"
	"strconv"

	"github.com/tallygate/tallygate/db"
	"github.com/tallygate/tallygate/db/audit"
	"github.com/tallygate/tallygate/db/model"
	"github.com/tallygate/tallygate/db/reports"
)

// SiteUpdate holds the settings to change. A nil field leaves its setting unchanged. The tags name
// the settings in the file of the command "admin apply".
type SiteUpdate struct {
	Name                    *string   `yaml:"name"`
	ExtraDomains            *[]string `yaml:"extraDomains"`      // see AddSiteDomain; the whole list, as the next three
	RegisteredEvents        *[]string `yaml:"registeredEvents"`  // see RegisterEvent
	KeyEvents               *[]string `yaml:"keyEvents"`         // see MarkKeyEvent; a purchase always is one
	ExcludedAddresses       *[]string `yaml:"excludedAddresses"` // see model.ParseNetwork; at most model.MaxExcludedNetworks
	MeasureSiteSearch       *bool     `yaml:"measureSiteSearch"`
	MeasureEcommerce        *bool     `yaml:"measureEcommerce"`
	AllowPseudonymousUserID *bool     `yaml:"allowPseudonymousUserId"`
	AutomaticEvents         *bool     `yaml:"automaticEvents"`
	TimeZone                *string   `yaml:"timeZone"` // IANA name

	VisitDetails      *model.List[model.VisitDetail] `yaml:"visitDetails"` // the whole list, as the next three
	ExcludedCountries *model.List[string]            `yaml:"excludedCountries"`
	ExcludedPaths     *model.List[string]            `yaml:"excludedPaths"` // at most model.MaxExcludedPaths
	Shields           *model.List[model.Shield]      `yaml:"shields"`
	SmallGroup        *int                           `yaml:"smallGroup"` // visitors, at most model.MaxSmallGroup

	AllowLocal bool `yaml:"-"` // permits localhost and names without a dot as extra domains
}

// settings are the settings of SiteUpdate, in its order. UpdateSite, the audit log, and the files
// of "admin apply" and "admin export-config" follow the table.
var settings = []setting{
	inColumn("name", "name", func(s *model.SiteRules, u *SiteUpdate) (*string, **string) {
		return &s.Name, &u.Name
	}, model.ParseName),
	inList("extraDomains", &domainList, func(s *model.SiteRules, u *SiteUpdate) (*[]string, **[]string) {
		return &s.ExtraDomains, &u.ExtraDomains
	}),
	inList("registeredEvents", &eventList, func(s *model.SiteRules, u *SiteUpdate) (*[]string, **[]string) {
		return &s.Registered, &u.RegisteredEvents
	}),
	inList("keyEvents", &keyEventList, func(s *model.SiteRules, u *SiteUpdate) (*[]string, **[]string) {
		return &s.KeyEvents, &u.KeyEvents
	}),
	inList("excludedAddresses", &networkList, func(s *model.SiteRules, u *SiteUpdate) (*[]string, **[]string) {
		return new(textsOf(s.Excluded)), &u.ExcludedAddresses
	}),
	inColumn("measureSiteSearch", "measure_site_search", func(s *model.SiteRules, u *SiteUpdate) (*bool, **bool) {
		return &s.MeasureSiteSearch, &u.MeasureSiteSearch
	}, nil),
	inColumn("measureEcommerce", "measure_ecommerce", func(s *model.SiteRules, u *SiteUpdate) (*bool, **bool) {
		return &s.MeasureEcommerce, &u.MeasureEcommerce
	}, nil),
	inColumn("allowPseudonymousUserId", "allow_pseudonymous_user_id", func(s *model.SiteRules, u *SiteUpdate) (*bool, **bool) {
		return &s.AllowPseudonymousUserID, &u.AllowPseudonymousUserID
	}, nil),
	inColumn("automaticEvents", "automatic_events", func(s *model.SiteRules, u *SiteUpdate) (*bool, **bool) {
		return &s.AutomaticEvents, &u.AutomaticEvents
	}, nil),
	inColumn("timeZone", "time_zone", func(s *model.SiteRules, u *SiteUpdate) (*string, **string) {
		return &s.TimeZone, &u.TimeZone
	}, parseTimeZone),
	inColumn("visitDetails", "visit_details",
		func(s *model.SiteRules, u *SiteUpdate) (*model.List[model.VisitDetail], **model.List[model.VisitDetail]) {
			return &s.VisitDetails, &u.VisitDetails
		}, model.ParseVisitDetails),
	inColumn("excludedCountries", "excluded_countries",
		func(s *model.SiteRules, u *SiteUpdate) (*model.List[string], **model.List[string]) {
			return &s.ExcludedCountries, &u.ExcludedCountries
		}, model.ParseCountries),
	inColumn("excludedPaths", "excluded_paths",
		func(s *model.SiteRules, u *SiteUpdate) (*model.List[string], **model.List[string]) {
			return &s.ExcludedPaths, &u.ExcludedPaths
		}, model.ParseExcludedPaths),
	inColumn("shields", "shields",
		func(s *model.SiteRules, u *SiteUpdate) (*model.List[model.Shield], **model.List[model.Shield]) {
			return &s.Shields, &u.Shields
		}, model.ParseShields),
	inColumn("smallGroup", "small_group", func(s *model.SiteRules, u *SiteUpdate) (*int, **int) {
		return &s.SmallGroup, &u.SmallGroup
	}, model.ParseSmallGroup),
}

// setting is a row of the table: how a setting is checked, stored and shown.
type setting struct {
	name   string    // in GraphQL, the audit log and the file
	column string    // of the table sites; "" for a list
	list   *siteList // of a list, or nil

	parse func(*SiteUpdate) error             // checks and normalises a given value
	given func(*SiteUpdate) any               // the value; nil: none is given
	set   func(*model.SiteRules, *SiteUpdate) // sets a given value
	read  func(*model.SiteRules, *SiteUpdate) // gives the update the site's value
}

// inColumn returns a setting. fields finds its value in a site and in an update. parse checks and
// normalises it; nil: every value is right.
func inColumn[T any](
	name, column string, fields func(*model.SiteRules, *SiteUpdate) (*T, **T), parse func(field string, value T) (T, error),
) setting {
	return setting{
		name: name, column: column,
		parse: func(u *SiteUpdate) error {
			_, given := fields(new(model.SiteRules), u)
			if *given == nil || parse == nil {
				return nil
			}

			value, err := parse(name, **given)
			*given = &value
			return err
		},
		given: func(u *SiteUpdate) any {
			if _, given := fields(new(model.SiteRules), u); *given != nil {
				return **given
			}
			return nil
		},
		set: func(s *model.SiteRules, u *SiteUpdate) {
			stored, given := fields(s, u)
			setIfGiven(stored, *given)
		},
		read: func(s *model.SiteRules, u *SiteUpdate) {
			stored, given := fields(s, u)
			value := *stored
			*given = &value
		},
	}
}

// inList returns a setting that is one of the site's lists.
func inList(name string, list *siteList, fields func(*model.SiteRules, *SiteUpdate) (*[]string, **[]string)) setting {
	row := inColumn(name, "", fields, nil)
	row.list = list
	return row
}

// parseTimeZone checks the name of a time zone.
func parseTimeZone(field, name string) (string, error) {
	_, err := model.ParseTimeZone(field, name)
	return name, err
}

// SettingsOf returns the settings of a site, each of them given.
func SettingsOf(site *model.SiteRules) (u SiteUpdate) {
	for _, row := range settings {
		row.read(site, &u)
	}
	return u
}

// Difference is a setting with different values in two states of a site.
type Difference struct{ Name, Was, Is string }

// Differences returns the settings that differ, with those that other methods than UpdateSite
// change.
func Differences(before, after *model.SiteRules) (list []Difference) {
	add := func(name string, was, is any) {
		if was, is := fmt.Sprint(was), fmt.Sprint(is); was != is {
			list = append(list, Difference{name, was, is})
		}
	}

	was, is := SettingsOf(before), SettingsOf(after)
	for _, row := range settings {
		add(row.name, row.given(&was), row.given(&is))
	}
	add("conversionWebhookUrl", before.ConversionWebhookURL, after.ConversionWebhookURL)
	add("dailyExportUrl", before.DailyExportURL, after.DailyExportURL)
	add("plan", before.Plan, after.Plan)
	add("monthlyPageviews", limitText(before.Limit()), limitText(after.Limit()))

	return list
}

// limitText shows a limit, nil for none.
func limitText(limit *int64) string {
	if limit == nil {
		return "unlimited"
	}
	return strconv.FormatInt(*limit, 10)
}

// UpdateSite changes settings: all of them or, when one is refused, none. It reports every wrong
// value, as joined errors.
func (s *Sites) UpdateSite(ctx context.Context, accountID model.AccountID, siteID model.SiteID, u SiteUpdate) error {
	wrong := u.parse()
	now, err := s.db.Now(ctx)
	if err != nil {
		return err
	}

	return s.changeSite(ctx, accountID, siteID, func(tx *db.Tx, site *model.Site) error {
		before, err := u.values(ctx, tx, site)
		if err != nil {
			return err
		}

		// The lists come first: their values are checked against the site's row and against each
		// other.
		if err := u.replaceLists(ctx, tx, site, wrong); err != nil {
			return err
		}

		if u.TimeZone != nil && *u.TimeZone != site.TimeZone {
			in, err := tx.EnterSite(ctx, siteID)
			if err != nil {
				return err
			}
			if err := reports.InvalidateZone(ctx, in, siteID, now); err != nil {
				return err
			}
		}
		if err := u.store(ctx, tx, site); err != nil {
			return err
		}

		after, err := u.values(ctx, tx, site)
		if err != nil {
			return err
		}
		return auditSite(ctx, tx, site, before, after)
	})
}

// parse checks and normalises the given values of columns. It returns every wrong one.
func (u *SiteUpdate) parse() (wrong []error) {
	for _, row := range settings {
		wrong = append(wrong, row.parse(u))
	}
	return wrong
}

// replaceLists stores the given lists. It returns the errors of their values after the errors in
// wrong.
func (u *SiteUpdate) replaceLists(ctx context.Context, tx *db.Tx, site *model.Site, wrong []error) error {
	for _, row := range settings {
		texts, given := row.given(u).([]string)
		if !given {
			continue
		}

		err := row.list.replace(ctx, tx, site, row.name, texts, u.AllowLocal)
		if err != nil && model.KindOf(err) == model.Internal {
			return err
		}
		wrong = append(wrong, err)
	}
	return errors.Join(wrong...)
}

// store stores the given values of columns.
func (u *SiteUpdate) store(ctx context.Context, tx *db.Tx, site *model.Site) error {
	rules := model.SiteRules{Site: *site}
	var columns []string
	for _, row := range settings {
		row.set(&rules, u)
		if row.column != "" && row.given(u) != nil {
			columns = append(columns, row.column)
		}
	}
	*site = rules.Site

	if len(columns) == 0 {
		return nil
	}
	return updateColumns(ctx, tx, site, columns...)
}

// values returns the settings of a site that u changes, as they are now.
func (u *SiteUpdate) values(ctx context.Context, tx *db.Tx, site *model.Site) (audit.Values, error) {
	stored := SettingsOf(&model.SiteRules{Site: *site})
	values := audit.Values{}
	for _, row := range settings {
		switch {
		case row.given(u) == nil:
		case row.list == nil:
			values[row.name] = row.given(&stored)
		default:
			listed, err := row.list.values(ctx, tx, site.ID)
			if err != nil {
				return nil, err
			}
			values[row.name] = model.List[string](listed)
		}
	}
	return values, nil
}

// textsOf returns the texts of networks.
func textsOf(networks []netip.Prefix) []string {
	texts := make([]string, len(networks))
	for i, network := range networks {
		texts[i] = network.String()
	}
	return texts
}

// setIfGiven sets a field to a value that is not nil.
func setIfGiven[T any](field, value *T) {
	if value != nil {
		*field = *value
	}
}
