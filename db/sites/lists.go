package sites

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/uptrace/bun"

	"github.com/tallygate/tallygate/db"
	"github.com/tallygate/tallygate/db/audit"
	"github.com/tallygate/tallygate/db/model"
)

// Whole lists of a site. A list replaces the stored one, or nothing changes if an item is refused.
// Each refused item is reported with its index, up to model.MaxListErrors of them. Repeated values
// count once.

// SetSiteDomains replaces the extra domains of a site, see AddSiteDomain. allowLocal permits localhost
// and names without a dot, see model.ParseDomain.
func (s *Store) SetSiteDomains(
	ctx context.Context, accountID, siteID int64, texts []string, allowLocal bool,
) error {
	return s.changeSite(ctx, accountID, siteID, func(tx *db.Tx, site *model.Site) error {
		domains, err := parseList("domains", texts, func(text string) (string, error) {
			domain, err := model.ParseDomain(text, allowLocal)
			if err == nil && domain == site.Domain {
				err = errOwnDomain
			}
			return domain, err
		})
		if err != nil {
			return err
		}
		if len(domains) > model.MaxExtraDomains {
			return errTooManyDomains("domains")
		}

		return replaceList(ctx, tx, site, "site_domains", "domain", domains)
	})
}

// SetRegisteredEvents replaces the custom event names of a site, see RegisterEvent. A name that is no
// longer registered is no key event any more.
func (s *Store) SetRegisteredEvents(ctx context.Context, accountID, siteID int64, names []string) error {
	registered, err := parseList("names", names, func(name string) (string, error) { return name, checkEventName(name) })
	if err == nil && len(registered) > model.MaxRegisteredEvents {
		err = errTooManyEvents("names")
	}

	return s.changeSite(ctx, accountID, siteID, func(tx *db.Tx, site *model.Site) error {
		if err != nil {
			return err
		}
		if err := replaceList(ctx, tx, site, "registered_events", "name", registered); err != nil {
			return err
		}

		keyEvents, err := listOf(ctx, tx, "key_events", "name", siteID)
		if err != nil {
			return err
		}

		// A reserved name was never registered, so its mark stays.
		kept := slices.DeleteFunc(slices.Clone(keyEvents), func(name string) bool {
			return !model.IsReservedEvent(name) && !slices.Contains(registered, name)
		})

		if len(kept) == len(keyEvents) {
			return nil
		}

		return storeList(ctx, tx, "key_events", "name", siteID, kept)
	})
}

// SetKeyEvents replaces the events that send the conversion webhook, see MarkKeyEvent. A purchase
// always is one, whether or not it is in the list.
func (s *Store) SetKeyEvents(ctx context.Context, accountID, siteID int64, names []string) error {
	return s.changeSite(ctx, accountID, siteID, func(tx *db.Tx, site *model.Site) error {
		registered, err := listOf(ctx, tx, "registered_events", "name", siteID)
		if err != nil {
			return err
		}

		keyEvents, err := parseList("names", names, func(name string) (string, error) {
			if model.IsAutomaticEvent(name) || model.IsEcommerceEvent(name) || slices.Contains(registered, name) {
				return name, nil
			}
			return "", errNotRegistered
		})
		if err != nil {
			return err
		}

		keyEvents = slices.DeleteFunc(keyEvents, func(name string) bool { return name == model.EventPurchase })

		return replaceList(ctx, tx, site, "key_events", "name", keyEvents)
	})
}

// parseList parses each item of a list and returns the values sorted, each once. It reports the
// refused items by their index.
func parseList(field string, items []string, parse func(item string) (string, error)) ([]string, error) {
	values := make([]string, 0, len(items))
	var wrong []error

	for i, item := range items {
		value, err := parse(item)
		if err == nil {
			values = append(values, value)
			continue
		}

		shown, ok := errors.AsType[*model.Error](err)
		if !ok {
			return nil, err
		}
		if len(wrong) < model.MaxListErrors {
			wrong = append(wrong, model.InvalidItem(field, i, shown.Code, shown.Message))
		}
	}

	if len(wrong) > 0 {
		return nil, errors.Join(wrong...)
	}

	slices.Sort(values)
	return slices.Compact(values), nil
}

// listOf returns the values of one of the site's lists, sorted.
func listOf(ctx context.Context, tx *db.Tx, table, column string, siteID int64) (values []string, err error) {
	err = tx.NewSelect().Table(table).Column(column).Where("site_id = ?", siteID).Scan(ctx, &values)
	slices.Sort(values)
	return values, err
}

// replaceList stores one of the site's lists as a whole, and records the change.
func replaceList(
	ctx context.Context, tx *db.Tx, site *model.Site, table, column string, values []string,
) error {
	before, err := listOf(ctx, tx, table, column, site.ID)
	if err != nil {
		return err
	}
	if err := storeList(ctx, tx, table, column, site.ID, values); err != nil {
		return err
	}

	return auditSite(ctx, tx, site, audit.Values{column + "s": before}, audit.Values{column + "s": values})
}

func storeList(ctx context.Context, tx *db.Tx, table, column string, siteID int64, values []string) error {
	_, err := tx.ExecContext(ctx, "DELETE FROM ? WHERE site_id = ?", bun.Ident(table), siteID)
	if err != nil || len(values) == 0 {
		return err
	}

	args := []any{bun.Ident(table), bun.Ident(column)}
	for _, value := range values {
		args = append(args, siteID, value)
	}

	_, err = tx.ExecContext(ctx, "INSERT INTO ? (site_id, ?) VALUES (?, ?)"+strings.Repeat(", (?, ?)", len(values)-1), args...)
	return err
}

// checkEventName checks the name of a custom event.
func checkEventName(name string) error {
	switch {
	case !model.IsEventName(name):
		return model.InvalidField("name", "invalid_event_name",
			"Use a name of 1 to 48 lower-case letters, digits, underscores and hyphens.")
	case model.IsReservedEvent(name):
		return model.InvalidField("name", "reserved_event_name",
			"This name has a meaning of its own and cannot be registered.")
	}
	return nil
}

// The errors of single values and of whole lists.
var (
	errOwnDomain     = model.InvalidField("domain", "own_domain", "This is the site's own domain; it needs no entry.")
	errNotRegistered = model.InvalidField("name", "event_not_registered", "Register this event name first.")
)

func errTooManyDomains(field string) error {
	return &model.Error{Kind: model.Conflict, Code: "too_many_domains", Field: field,
		Message: fmt.Sprintf("A site has at most %d extra domains.", model.MaxExtraDomains)}
}

func errTooManyEvents(field string) error {
	return &model.Error{Kind: model.Conflict, Code: "too_many_events", Field: field,
		Message: fmt.Sprintf("A site has at most %d registered event names.", model.MaxRegisteredEvents)}
}
