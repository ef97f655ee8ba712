package sites

import (
	"context"

	"github.com/tallygate/tallygate/db"
	"github.com/tallygate/tallygate/db/audit"
	"github.com/tallygate/tallygate/db/model"
	"github.com/tallygate/tallygate/db/nodeid"
)

// The entries of this package's changes in the audit log.

func siteObject(site *model.Site) audit.Object {
	return audit.Object{Kind: nodeid.Site, ID: int64(site.ID), Name: site.Domain}
}

// auditSite records a change of a site.
func auditSite(ctx context.Context, tx *db.Tx, site *model.Site, before, after audit.Values) error {
	return audit.Write(ctx, tx, audit.Change{
		AccountID: site.AccountID, IsKnown: true, Object: siteObject(site), Before: before, After: after,
	})
}

// auditItem records that a list of the site has a value, or no longer has it.
func auditItem(ctx context.Context, tx *db.Tx, site *model.Site, list, value string, was, is bool) error {
	values := func(listed bool) audit.Values {
		if !listed {
			return audit.Values{}
		}
		return audit.Values{list: value}
	}

	return auditSite(ctx, tx, site, values(was), values(is))
}

func stateValues(site *model.Site) audit.Values { return audit.Values{"state": site.State()} }

func planValues(site *model.Site) audit.Values {
	values := audit.Values{"plan": site.Plan, "monthlyPageviews": nil}
	if limit := site.Limit(); limit != nil {
		values["monthlyPageviews"] = *limit
	}
	return values
}

// orNil returns nil for an empty text, so that the log shows no value.
func orNil(s string) any {
	if s == "" {
		return nil
	}
	return s
}

// auditSitekey records a change of a sitekey.
func auditSitekey(ctx context.Context, tx *db.Tx, key *model.Sitekey, before, after audit.Values) error {
	return audit.Write(ctx, tx, audit.Change{
		AccountID: key.AccountID, Object: audit.Object{Kind: nodeid.Sitekey, ID: int64(key.ID), Name: key.Name},
		Before: before, After: after,
	})
}

func sitekeyValues(key *model.Sitekey) audit.Values {
	return audit.Values{"name": key.Name, "domains": key.Domains, "policy": key.Policy.Text()}
}

// auditObject records a change of an object of a site of the account: an annotation, a segment, a
// funnel or a shared link.
func auditObject(ctx context.Context, tx *db.Tx, accountID model.AccountID, object any, before, after audit.Values) error {
	change := audit.Change{AccountID: accountID, Before: before, After: after}
	switch o := object.(type) {
	case *model.Annotation:
		change.Object = audit.Object{Kind: nodeid.Annotation, ID: int64(o.ID), Name: o.Text}
	case *model.Segment:
		change.Object = audit.Object{Kind: nodeid.Segment, ID: int64(o.ID), Name: o.Name}
	case *model.Funnel:
		change.Object = audit.Object{Kind: nodeid.Funnel, ID: int64(o.ID), Name: o.Name}
	case *model.SharedLink:
		change.Object = audit.Object{Kind: nodeid.SharedLink, ID: int64(o.ID), Name: o.Name}
	}

	return audit.Write(ctx, tx, change)
}

// objectValues returns the values of an object of a site, without secrets.
func objectValues(object any) audit.Values {
	switch o := object.(type) {
	case *model.Annotation:
		return audit.Values{"day": o.Day.String(), "text": o.Text}
	case *model.Segment:
		return audit.Values{"name": o.Name, "filters": o.Filters}
	case *model.Funnel:
		return audit.Values{"name": o.Name, "steps": o.Steps}
	case *model.SharedLink:
		values := audit.Values{"name": o.Name, "hint": o.TokenHint, "hasPassword": o.PasswordHash != "",
			"hideRevenue": o.HidesRevenue, "origins": o.Origins}
		if o.ExpiresAt != 0 {
			values["expiresAt"] = o.ExpiresAt.Time()
		}
		return values
	}

	return nil
}

// RecordImport records that a site has an import of reports, or no longer has it. It is a
// reports.Recorder.
func RecordImport(ctx context.Context, tx *db.Tx, siteID model.SiteID, before, after map[string]any) error {
	var site model.Site
	err := tx.NewSelect().Model(&site).Column("id", "account_id", "domain").Where("id = ?", siteID).Scan(ctx)
	if err != nil {
		return db.OrNotFound(err)
	}
	return auditSite(ctx, tx, &site, before, after)
}
