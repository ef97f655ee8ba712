package sites

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/uptrace/bun"

	"github.com/tallygate/tallygate/db"
	"github.com/tallygate/tallygate/db/model"
)

// The lists of a site: extra domains, registered events, key events and excluded networks.
// UpdateSite replaces a whole list; one domain or event can be added and removed. A refused value
// of a whole list is reported with its index, up to model.MaxListErrors of them, and nothing
// changes. Repeated values count once.

// siteList is a list of values of a site, in a table of its own.
type siteList struct {
	table, column string
	item          string // the name of one value in the audit log
	most          int    // the largest number of values; 0: any
	full          func(field string) error

	// parse normalises a value of a whole list; nil: it stays as it is given.
	parse func(text string, allowLocal bool) (string, error)
	// check returns what checks a value for a site, or is nil.
	check func(ctx context.Context, tx *db.Tx, site *model.Site) (func(value string) error, error)
	// removed runs after values were removed, or is nil.
	removed func(ctx context.Context, tx *db.Tx, siteID model.SiteID) error

	always       string // a value that every site has, without a row; "": none
	alwaysListed error  // of removing it
}

var domainList = siteList{
	table: "site_domains", column: "domain", item: "domain", most: model.MaxExtraDomains, full: errTooManyDomains,
	parse: model.ParseDomain,
	check: func(_ context.Context, _ *db.Tx, site *model.Site) (func(string) error, error) {
		return func(domain string) error {
			if domain == site.Domain {
				return errOwnDomain
			}
			return nil
		}, nil
	},
}

var eventList = siteList{
	table: "registered_events", column: "name", item: "event", most: model.MaxRegisteredEvents, full: errTooManyEvents,
	check:   func(context.Context, *db.Tx, *model.Site) (func(string) error, error) { return checkEventName, nil },
	removed: unmarkUnregistered,
}

var keyEventList = siteList{
	table: "key_events", column: "name", item: "keyEvent", check: checkKeyEvents, always: model.EventPurchase,
	alwaysListed: model.InvalidField("name", "always_key_event", "A purchase always is a key event."),
}

var networkList = siteList{
	table: "excluded_addresses", column: "network", most: model.MaxExcludedNetworks, full: errTooManyNetworks,
	parse: parseNetwork,
}

// AddSiteDomain adds an extra domain, normalised (see model.ParseDomain). A site has at most
// model.MaxExtraDomains. The site's own domain is refused: it is always allowed and would use up
// one of them.
func (s *Sites) AddSiteDomain(ctx context.Context, accountID model.AccountID, siteID model.SiteID, domain string) error {
	return s.changeItem(ctx, accountID, siteID, &domainList, domain, true)
}

// RemoveSiteDomain removes an extra domain.
func (s *Sites) RemoveSiteDomain(ctx context.Context, accountID model.AccountID, siteID model.SiteID, domain string) error {
	return s.changeItem(ctx, accountID, siteID, &domainList, domain, false)
}

// RegisterEvent adds a custom event name to the site, which has at most model.MaxRegisteredEvents.
func (s *Sites) RegisterEvent(ctx context.Context, accountID model.AccountID, siteID model.SiteID, name string) error {
	return s.changeItem(ctx, accountID, siteID, &eventList, name, true)
}

// UnregisterEvent removes a custom event name from the site, and its mark as a key event.
func (s *Sites) UnregisterEvent(ctx context.Context, accountID model.AccountID, siteID model.SiteID, name string) error {
	return s.changeItem(ctx, accountID, siteID, &eventList, name, false)
}

// MarkKeyEvent makes an event send the conversion webhook. The event must be registered, automatic
// or an e-commerce event. A purchase always is a key event.
func (s *Sites) MarkKeyEvent(ctx context.Context, accountID model.AccountID, siteID model.SiteID, name string) error {
	return s.changeItem(ctx, accountID, siteID, &keyEventList, name, true)
}

// UnmarkKeyEvent removes the mark as a key event. It fails for a purchase, which always is one.
func (s *Sites) UnmarkKeyEvent(ctx context.Context, accountID model.AccountID, siteID model.SiteID, name string) error {
	return s.changeItem(ctx, accountID, siteID, &keyEventList, name, false)
}

// changeItem adds a value to a list of a site, or removes it.
func (s *Sites) changeItem(
	ctx context.Context, accountID model.AccountID, siteID model.SiteID, list *siteList, value string, listed bool,
) error {
	return s.changeSite(ctx, accountID, siteID, func(tx *db.Tx, site *model.Site) error {
		if listed {
			return list.add(ctx, tx, site, value)
		}
		return list.remove(ctx, tx, site, value)
	})
}

// add adds a value, and records it.
func (l *siteList) add(ctx context.Context, tx *db.Tx, site *model.Site, value string) error {
	if l.always != "" && value == l.always {
		return auditItem(ctx, tx, site, l.item, value, true, true)
	}

	check, err := l.check(ctx, tx, site)
	if err != nil {
		return err
	}
	if err := check(value); err != nil {
		return err
	}

	added, err := db.Changed(tx.ExecContext(ctx, "INSERT INTO ? (site_id, ?) VALUES (?, ?) ON CONFLICT DO NOTHING",
		bun.Ident(l.table), bun.Ident(l.column), site.ID, value))
	if err != nil {
		return err
	}

	if added && l.most > 0 {
		n, err := tx.NewSelect().Table(l.table).Where("site_id = ?", site.ID).Count(ctx)
		if err != nil {
			return err
		}
		if int(n) > l.most {
			// The error rolls back the insert.
			return l.full(l.column)
		}
	}

	return auditItem(ctx, tx, site, l.item, value, !added, true)
}

// remove removes a value, and records it.
func (l *siteList) remove(ctx context.Context, tx *db.Tx, site *model.Site, value string) error {
	if l.always != "" && value == l.always {
		return l.alwaysListed
	}

	removed, err := l.delete(ctx, tx, site.ID, value)
	if err != nil {
		return err
	}
	if l.removed != nil {
		if err := l.removed(ctx, tx, site.ID); err != nil {
			return err
		}
	}

	return auditItem(ctx, tx, site, l.item, value, removed, false)
}

// delete deletes the row of a value, and reports whether there was one.
func (l *siteList) delete(ctx context.Context, tx *db.Tx, siteID model.SiteID, value string) (bool, error) {
	return db.Changed(tx.ExecContext(ctx, "DELETE FROM ? WHERE site_id = ? AND ? = ?", bun.Ident(l.table), siteID,
		bun.Ident(l.column), value))
}

// replace stores the whole list of a setting. If it refuses values, it stores the others
// nevertheless: the next list may depend on them, and the error rolls all of them back.
func (l *siteList) replace(
	ctx context.Context, tx *db.Tx, site *model.Site, field string, texts []string, allowLocal bool,
) error {
	check := func(string) error { return nil }
	if l.check != nil {
		var err error
		if check, err = l.check(ctx, tx, site); err != nil {
			return err
		}
	}

	values, wrong := parseList(field, texts, func(text string) (value string, err error) {
		value = text
		if l.parse != nil {
			value, err = l.parse(text, allowLocal)
		}
		if err == nil {
			err = check(value)
		}
		return value, err
	})

	if l.always != "" {
		values = slices.DeleteFunc(values, func(value string) bool { return value == l.always })
	}
	if l.most > 0 && len(values) > l.most {
		return errors.Join(wrong, l.full(field))
	}

	if err := l.store(ctx, tx, site.ID, values); err != nil {
		return err
	}
	if l.removed != nil {
		if err := l.removed(ctx, tx, site.ID); err != nil {
			return err
		}
	}

	return wrong
}

// values returns the values of the site, sorted.
func (l *siteList) values(ctx context.Context, tx *db.Tx, siteID model.SiteID) (values []string, err error) {
	err = tx.NewSelect().Table(l.table).Column(l.column).Where("site_id = ?", siteID).Scan(ctx, &values)
	slices.Sort(values)
	return values, err
}

// store stores the whole list.
func (l *siteList) store(ctx context.Context, tx *db.Tx, siteID model.SiteID, values []string) error {
	_, err := tx.ExecContext(ctx, "DELETE FROM ? WHERE site_id = ?", bun.Ident(l.table), siteID)
	if err != nil || len(values) == 0 {
		return err
	}

	args := []any{bun.Ident(l.table), bun.Ident(l.column)}
	for _, value := range values {
		args = append(args, siteID, value)
	}

	_, err = tx.ExecContext(ctx, "INSERT INTO ? (site_id, ?) VALUES (?, ?)"+strings.Repeat(", (?, ?)", len(values)-1), args...)
	return err
}

// parseList parses each item of a list and returns the values sorted, each once. It reports the
// refused items by their index, and returns the others.
func parseList(
	field string, items []string, parse func(item string) (string, error),
) (values []string, refused error) {
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

	slices.Sort(values)
	return slices.Compact(values), errors.Join(wrong...)
}

// parseNetwork returns a network in its stored form: host bits cleared, IPv4 never inside IPv6.
func parseNetwork(text string, _ bool) (string, error) {
	network := model.ParseNetwork(text).Masked()
	if !network.IsValid() {
		return "", model.InvalidField("", "invalid_network",
			"Enter addresses or networks such as 192.0.2.7 or 2001:db8::/32, IPv4-mapped ones with 96 bits or more.")
	}
	return network.String(), nil
}

// checkKeyEvents returns what checks that an event is registered, automatic or an e-commerce event.
func checkKeyEvents(ctx context.Context, tx *db.Tx, site *model.Site) (func(name string) error, error) {
	registered, err := registeredEvents(ctx, tx, site.ID)
	return func(name string) error {
		if model.IsAutomaticEvent(name) || model.IsEcommerceEvent(name) || slices.Contains(registered, name) {
			return nil
		}
		return errNotRegistered
	}, err
}

// registeredEvents returns the custom event names of the site.
func registeredEvents(ctx context.Context, tx *db.Tx, siteID model.SiteID) ([]string, error) {
	list := siteList{table: "registered_events", column: "name"}
	return list.values(ctx, tx, siteID)
}

// unmarkUnregistered removes the marks of key events that are no longer registered. A reserved name
// was never registered, so its mark stays.
func unmarkUnregistered(ctx context.Context, tx *db.Tx, siteID model.SiteID) error {
	registered, err := registeredEvents(ctx, tx, siteID)
	if err != nil {
		return err
	}
	marked, err := keyEventList.values(ctx, tx, siteID)
	if err != nil {
		return err
	}

	for _, name := range marked {
		if model.IsReservedEvent(name) || slices.Contains(registered, name) {
			continue
		}
		if _, err := keyEventList.delete(ctx, tx, siteID, name); err != nil {
			return err
		}
	}

	return nil
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

func errTooManyNetworks(field string) error {
	return &model.Error{Kind: model.Conflict, Code: "too_many_networks", Field: field,
		Message: fmt.Sprintf("A site has at most %d excluded addresses.", model.MaxExcludedNetworks)}
}
