package resolver

import (
	"context"
	"net/url"

	"github.com/tallygate/tallygate/db/model"
	"github.com/tallygate/tallygate/graph/privacy"
)

// PrivacyText returns the text for the site's privacy policy, from the site's settings and the
// installation's.
func (r *siteResolver) PrivacyText(ctx context.Context, obj *model.Site, language model.Language) (string, error) {
	rules, err := r.rules(ctx, obj)
	if err != nil {
		return "", err
	}

	keyEvents, err := r.KeyEvents(ctx, obj)
	if err != nil {
		return "", err
	}

	domains := make([]string, len(rules.ExtraDomains))
	for i, domain := range rules.ExtraDomains {
		domains[i] = model.DisplayDomain(domain)
	}

	return privacy.Text(language, &privacy.Facts{
		Domain:       obj.DisplayDomain(),
		ExtraDomains: domains,
		Server:       hostOf(r.analyticsURL),

		AutomaticEvents:  obj.AutomaticEvents,
		SiteSearch:       obj.MeasureSiteSearch,
		Ecommerce:        obj.MeasureEcommerce,
		RegisteredEvents: rules.Registered,
		UserID:           obj.AllowPseudonymousUserID,
		ServerEvents:     obj.ServerSecretHint != "",
		Details:          obj.VisitDetails,

		ExcludedAddresses: len(rules.Excluded) > 0,
		ExcludedCountries: obj.ExcludedCountries,
		ExcludedPaths:     len(obj.ExcludedPaths) > 0,
		Shields:           obj.Shields,

		RetentionMonths: r.configuration.RetentionMonths,
		ReportMonths:    r.configuration.ReportMonths,

		ConversionHost: hostOf(obj.ConversionWebhookURL),
		KeyEvents:      keyEvents,
		ExportHost:     hostOf(obj.DailyExportURL),
		SmallGroup:     obj.SmallGroup,
	}), nil
}

// hostOf returns the host of a stored address, without its port, and an empty text for no address.
func hostOf(address string) string {
	u, err := url.Parse(address)
	if err != nil {
		return ""
	}
	return u.Hostname()
}
