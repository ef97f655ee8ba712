package sites

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"net/netip"
	"slices"

	"github.com/uptrace/bun"

	"github.com/tallygate/tallygate/db"
	"github.com/tallygate/tallygate/db/audit"
	"github.com/tallygate/tallygate/db/model"
	"github.com/tallygate/tallygate/db/reports"
)

// SiteUpdate holds the settings to change. A nil field leaves its setting unchanged. The tags name the
// settings in the file of the command "admin apply".
type SiteUpdate struct {
	Name                    *string         `yaml:"name"`
	ExtraDomains            *[]string       `yaml:"extraDomains"` // normalised; the whole list, as the next three
	RegisteredEvents        *[]string       `yaml:"registeredEvents"`
	KeyEvents               *[]string       `yaml:"keyEvents"`
	ExcludedAddresses       *[]netip.Prefix `yaml:"excludedAddresses"` // at most model.MaxExcludedNetworks
	MeasureSiteSearch       *bool           `yaml:"measureSiteSearch"`
	MeasureEcommerce        *bool           `yaml:"measureEcommerce"`
	AllowPseudonymousUserID *bool           `yaml:"allowPseudonymousUserId"`
	AutomaticEvents         *bool           `yaml:"automaticEvents"`
	TimeZone                *string         `yaml:"timeZone"` // IANA name

	VisitDetails      *model.List[model.VisitDetail] `yaml:"visitDetails"` // the whole list, as the next three
	ExcludedCountries *model.List[string]            `yaml:"excludedCountries"`
	ExcludedPaths     *model.List[string]            `yaml:"excludedPaths"` // at most model.MaxExcludedPaths
	Shields           *model.List[model.Shield]      `yaml:"shields"`
	SmallGroup        *int                           `yaml:"smallGroup"` // visitors, at most model.MaxSmallGroup
}

// settings are the settings of SiteUpdate, in its order. UpdateSite, the audit log, and the files of
// "admin apply" and "admin export-config" follow the table.
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
	inColumn("excludedAddresses", "", func(s *model.SiteRules, u *SiteUpdate) (*[]netip.Prefix, **[]netip.Prefix) {
		return &s.Excluded, &u.ExcludedAddresses
	}, parseNetworks),
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
	column string    // of the table sites; "": the setting has a table of its own
	list   *siteList // of a list in a table of its own, or nil

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

// Differences returns the settings that differ, with those that other methods than UpdateSite change.
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
	add("monthlyPageviews", before.MonthlyPageviews, after.MonthlyPageviews)

	return list
}

// UpdateSite changes settings: all of them or, when one is refused, none. It reports every wrong value
// of a column, as joined errors, and the first wrong value of a list.
func (s *Store) UpdateSite(ctx context.Context, accountID, siteID int64, u SiteUpdate) error {
	if err := u.parse(); err != nil {
		return err
	}
	now, err := s.db.Now(ctx)
	if err != nil {
		return err
	}

	return s.changeSite(ctx, accountID, siteID, func(tx *db.Tx, site *model.Site) error {
		before, err := u.values(ctx, tx, site)
		if err != nil {
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
		if err := auditSite(ctx, tx, site, before, after); err != nil {
			return err
		}

		return u.changeLists(ctx, tx, site)
	})
}

// parse checks and normalises the given values. It reports every wrong one.
func (u *SiteUpdate) parse() error {
	var wrong []error
	for _, row := range settings {
		wrong = append(wrong, row.parse(u))
	}
	return errors.Join(wrong...)
}

// store stores the given values, except lists.
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

	if len(columns) > 0 {
		if err := updateColumns(ctx, tx, site, columns...); err != nil {
			return err
		}
	}
	if u.ExcludedAddresses != nil {
		return replaceExcluded(ctx, tx, site.ID, *u.ExcludedAddresses)
	}
	return nil
}

// values returns the settings of a site that u changes, as they are now. Each value of a list has an
// entry of its own in the audit log.
func (u *SiteUpdate) values(ctx context.Context, tx *db.Tx, site *model.Site) (audit.Values, error) {
	stored := SettingsOf(&model.SiteRules{Site: *site})
	values := audit.Values{}
	for _, row := range settings {
		if row.column != "" && row.given(u) != nil {
			values[row.name] = row.given(&stored)
		}
	}

	if u.ExcludedAddresses == nil {
		return values, nil
	}

	networks := []string{}
	err := tx.NewSelect().Table("excluded_addresses").Column("network").Where("site_id = ?", site.ID).
		Order("network").Scan(ctx, &networks)
	values["excludedAddresses"] = networks

	return values, err
}

// changeLists changes the given lists.
func (u *SiteUpdate) changeLists(ctx context.Context, tx *db.Tx, site *model.Site) error {
	for _, row := range settings {
		values, given := row.given(u).([]string)
		if !given {
			continue
		}
		if err := row.list.change(ctx, tx, site, values); err != nil {
			return fmt.Errorf("%s: %w", row.name, err)
		}
	}
	return nil
}

// excludedAddress is a row of a site's excluded networks.
type excludedAddress struct {
	bun.BaseModel `bun:"table:excluded_addresses"`

	SiteID  int64
	Network string
}

// replaceExcluded stores the whole list of a site's excluded networks.
func replaceExcluded(ctx context.Context, tx *db.Tx, siteID int64, networks []netip.Prefix) error {
	_, err := tx.ExecContext(ctx, "DELETE FROM excluded_addresses WHERE site_id = ?", siteID)
	if err != nil || len(networks) == 0 {
		return err
	}

	rows := make([]excludedAddress, len(networks))
	for i, network := range networks {
		rows[i] = excludedAddress{SiteID: siteID, Network: network.String()}
	}

	_, err = tx.NewInsert().Model(&rows).Exec(ctx)
	return err
}

// setIfGiven sets a field to a value that is not nil.
func setIfGiven[T any](field, value *T) {
	if value != nil {
		*field = *value
	}
}

// parseNetworks returns networks in their stored form: host bits cleared, IPv4 never inside IPv6,
// sorted by their texts, without duplicates.
func parseNetworks(field string, networks []netip.Prefix) ([]netip.Prefix, error) {
	parsed := make([]netip.Prefix, 0, len(networks))

	var wrong []error
	for i, network := range networks {
		network = model.UnmapNetwork(network).Masked()
		if !network.IsValid() {
			wrong = append(wrong, model.InvalidItem(field, i, "invalid_network",
				"Enter addresses or networks such as 192.0.2.7 or 2001:db8::/32, IPv4-mapped ones with 96 bits or more."))
			if len(wrong) == model.MaxListErrors {
				break
			}
		}

		parsed = append(parsed, network)
	}

	if len(wrong) > 0 {
		return nil, errors.Join(wrong...)
	}

	slices.SortFunc(parsed, func(a, b netip.Prefix) int { return cmp.Compare(a.String(), b.String()) })
	parsed = slices.Compact(parsed)
	if len(parsed) > model.MaxExcludedNetworks {
		return nil, &model.Error{
			Kind: model.Conflict, Code: "too_many_networks", Field: field,
			Message: fmt.Sprintf("A site has at most %d excluded addresses.", model.MaxExcludedNetworks),
		}
	}

	return parsed, nil
}
