package sites

import (
	"context"
	"fmt"
	"net/netip"
	"slices"
	"strings"

	"github.com/uptrace/bun"

	"github.com/tallygate/tallygate/db/model"
)

// SiteRulesByKey returns the site with this site key, with all settings that decide about its hits.
// It returns model.ErrNotFound for an unknown key, and for that of a deleted site.
func (s *Lookup) SiteRulesByKey(ctx context.Context, siteKey string) (*model.SiteRules, error) {
	return one(siteRules(ctx, s.db.DataRead, func(q *bun.SelectQuery) {
		q.Where("site.site_key = ?", siteKey).Where("site.deleted_at = 0")
	}))
}

// SiteRulesByServerSecret is SiteRulesByKey for the hash of the server secret, see model.HashToken,
// or of the old one. The caller must check until when the old one is valid.
func (s *Lookup) SiteRulesByServerSecret(ctx context.Context, hash []byte) (*model.SiteRules, error) {
	return one(siteRules(ctx, s.db.DataRead, func(q *bun.SelectQuery) {
		q.Where("site.server_secret_hash = ? OR site.old_server_secret_hash = ?", hash, hash).
			Where("site.deleted_at = 0")
	}))
}

// SiteRules returns the rules of several sites by their ids. The caller must have loaded the sites,
// which checks the right to see them.
func (s *Sites) SiteRules(ctx context.Context, siteIDs []model.SiteID) (map[model.SiteID]*model.SiteRules, error) {
	if len(siteIDs) == 0 {
		return nil, nil
	}

	list, err := siteRules(ctx, s.reader(), func(q *bun.SelectQuery) { q.Where("site.id IN ?", bun.Tuple(siteIDs)) })
	if err != nil {
		return nil, fmt.Errorf("read settings of %d sites: %w", len(siteIDs), err)
	}

	rules := make(map[model.SiteID]*model.SiteRules, len(list))
	for _, site := range list {
		rules[site.ID] = site
	}

	return rules, nil
}

// ProbeRules reads the rules of one site, if there is any, by the statement of the data plane. It
// returns an error while no hit could be accepted.
func (s *Lookup) ProbeRules(ctx context.Context) error {
	_, err := siteRules(ctx, s.db.DataRead, func(q *bun.SelectQuery) { q.OrderExpr("site.id").Limit(1) })
	return err
}

// one returns the first site of a list, or model.ErrNotFound for an empty one.
func one(list []*model.SiteRules, err error) (*model.SiteRules, error) {
	if err == nil && len(list) == 0 {
		err = model.ErrNotFound
	}
	if err != nil {
		return nil, err
	}
	return list[0], nil
}

// siteRow is a site with its lists, each joined with spaces: no value in them contains a space.
type siteRow struct {
	bun.BaseModel `bun:"table:sites,alias:site"`
	model.Site    `bun:",extend"`

	ExtraDomains, Registered, KeyEvents, Excluded string `bun:",scanonly"`
	Suspended                                     bool   `bun:",scanonly"`
}

// siteRules reads sites with one statement, so that all settings come from one snapshot.
func siteRules(ctx context.Context, reader bun.IDB, where func(*bun.SelectQuery)) ([]*model.SiteRules, error) {
	var rows []siteRow
	q := reader.NewSelect().Model(&rows).ColumnExpr("site.*").
		ColumnExpr("(SELECT string_agg(domain, ' ') FROM site_domains WHERE site_id = site.id) AS extra_domains").
		ColumnExpr("(SELECT string_agg(name, ' ') FROM registered_events WHERE site_id = site.id) AS registered").
		ColumnExpr("(SELECT string_agg(name, ' ') FROM key_events WHERE site_id = site.id) AS key_events").
		ColumnExpr("(SELECT string_agg(network, ' ') FROM excluded_addresses WHERE site_id = site.id) AS excluded").
		ColumnExpr("(SELECT suspended_at > 0 FROM accounts WHERE id = site.account_id) AS suspended")

	where(q)

	if err := q.Scan(ctx); err != nil {
		return nil, err
	}

	list := make([]*model.SiteRules, len(rows))
	for i := range rows {
		var err error
		if list[i], err = rows[i].rules(); err != nil {
			return nil, err
		}
	}

	return list, nil
}

// rules splits the lists of a row.
func (row *siteRow) rules() (*model.SiteRules, error) {
	rules := &model.SiteRules{
		Site:         row.Site,
		ExtraDomains: sortedFields(row.ExtraDomains),
		Registered:   sortedFields(row.Registered),
		KeyEvents:    sortedFields(row.KeyEvents),
		Suspended:    row.Suspended,
	}

	for _, text := range sortedFields(row.Excluded) {
		network, err := netip.ParsePrefix(text)
		if err != nil {
			return nil, fmt.Errorf("excluded address of site %d: %w", row.ID, err)
		}

		rules.Excluded = append(rules.Excluded, network)
	}

	return rules, nil
}

func sortedFields(s string) []string {
	fields := strings.Fields(s)
	slices.Sort(fields)
	return fields
}
