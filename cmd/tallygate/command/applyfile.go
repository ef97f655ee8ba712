package command

import (
	"cmp"
	"context"
	"fmt"
	"reflect"
	"slices"
	"strings"
	"time"

	"github.com/tallygate/tallygate/db/model"
	"github.com/tallygate/tallygate/db/sites"
)

// applyAccount applies the settings of the account itself, and returns the changes.
func applyAccount(ctx context.Context, store *sites.Store, accountID int64, file *sitesFile) ([]string, error) {
	before, err := store.AccountSettings(ctx, accountID)
	if err != nil {
		return nil, err
	}

	after := *before
	if file.AccountName != nil {
		after.Name = *file.AccountName
	}
	if file.CaptchaPlan != nil {
		after.CaptchaPlan = model.CaptchaPlan(*file.CaptchaPlan)
	}
	if file.SiteLimit != nil {
		after.SiteLimit = file.SiteLimit
	}

	if reflect.DeepEqual(after, *before) {
		return nil, nil
	}
	if err := store.SetAccountSettings(ctx, accountID, after); err != nil {
		return nil, refused("account", err)
	}

	limit := func(limit *int64) string {
		if limit == nil {
			return "the default"
		}
		return fmt.Sprint(*limit)
	}

	var changes []string
	for _, setting := range []struct{ name, was, is string }{
		{"accountName", before.Name, after.Name},
		{"captchaPlan", string(before.CaptchaPlan), string(after.CaptchaPlan)},
		{"siteLimit", limit(before.SiteLimit), limit(after.SiteLimit)},
	} {
		if setting.was != setting.is {
			changes = append(changes, fmt.Sprintf("account: %s: %q, was %q", setting.name, setting.is, setting.was))
		}
	}

	return changes, nil
}

// newSiteKey returns the site key of a new site: the given one, or a random one.
func newSiteKey(ctx context.Context, store *sites.Store, given *string) (string, error) {
	if given == nil {
		return model.NewSiteKey(), nil
	}
	if !model.IsSiteKey(*given) {
		return "", model.InvalidField("siteKey", "invalid_site_key", "A site key is 32 hexadecimal characters.")
	}

	_, err := store.SiteRulesByKey(ctx, *given)
	switch {
	case err == nil:
		return "", model.InvalidField("siteKey", "invalid_site_key", "Another site has this site key.")
	case model.KindOf(err) != model.NotFound:
		return "", err
	}

	return *given, nil
}

// applySitekeys applies the settings of captcha sitekeys, and returns the changes.
func (c *applyCommand) applySitekeys(
	ctx context.Context, store *sites.Store, accountID int64, files []sitekeyFile,
) ([]string, error) {
	list, err := store.Sitekeys(ctx, accountID, 0, model.MaxSitekeys)
	if err != nil {
		return nil, err
	}

	existing := make(map[string]*model.Sitekey, len(list))
	for _, key := range list {
		existing[key.Sitekey] = key
	}

	var changes []string
	for _, file := range files {
		change, err := c.applySitekey(ctx, store, accountID, existing[file.Sitekey], file)
		if err != nil {
			return nil, refused(cmp.Or(file.Sitekey, "sitekeys"), err)
		}

		changes = append(changes, change...)
	}

	return changes, nil
}

// applySitekey creates or changes one sitekey. key is the existing one, or nil.
func (c *applyCommand) applySitekey(
	ctx context.Context, store *sites.Store, accountID int64, key *model.Sitekey, file sitekeyFile,
) ([]string, error) {
	domains, err := c.sitekeyDomains(file.Domains)
	if err != nil {
		return nil, err
	}

	if key == nil {
		name, bound := file.Sitekey, []string{}
		if file.Name != nil {
			name = *file.Name
		}
		if domains != nil {
			bound = *domains
		}

		_, _, err := store.CreateSitekeyAs(ctx, accountID, file.Sitekey, name, bound, model.At(time.Now()))
		return []string{file.Sitekey + ": created; rotate its secret to get one"}, err
	}

	if (file.Name == nil || *file.Name == key.Name) && (domains == nil || slices.Equal(*domains, key.Domains)) {
		return nil, nil
	}

	changed, err := store.UpdateSitekey(ctx, accountID, key.ID, sites.SitekeyUpdate{Name: file.Name, Domains: domains})
	if err != nil {
		return nil, err
	}

	var changes []string
	for _, setting := range []struct{ name, was, is string }{
		{"name", key.Name, changed.Name},
		{"domains", fmt.Sprint(key.Domains), fmt.Sprint(changed.Domains)},
	} {
		if setting.was != setting.is {
			changes = append(changes, fmt.Sprintf("%s: %s: %q, was %q", key.Sitekey, setting.name, setting.is, setting.was))
		}
	}

	return changes, nil
}

// sitekeyDomains normalizes the domains of a sitekey. It returns nil for nil.
func (c *applyCommand) sitekeyDomains(texts *[]string) (*[]string, error) {
	if texts == nil {
		return nil, nil
	}

	domains := make([]string, len(*texts))
	for i, text := range *texts {
		var err error
		if domains[i], err = model.ParseSitekeyDomain(text, c.AllowLocalDomains); err != nil {
			return nil, fmt.Errorf("domains: %s: %w", text, err)
		}
	}

	return &domains, nil
}

// applyObjects applies a site's segments, funnels and annotations: a list of the file replaces the
// stored one. It returns the changes.
func applyObjects(
	ctx context.Context, store *sites.Store, accountID int64, site *model.SiteRules, file siteFile,
) ([]string, error) {
	stored, err := readObjects(ctx, store, site.ID)
	if err != nil {
		return nil, err
	}

	var changes []string
	note := func(list, name, change string) {
		changes = append(changes, fmt.Sprintf("%s: %s: %q %s", site.Domain, list, name, change))
	}

	if file.Segments != nil {
		err := applySegments(ctx, store, accountID, site.ID, stored, *file.Segments, note)
		if err != nil {
			return nil, fmt.Errorf("segments: %w", err)
		}
	}

	if file.Funnels != nil {
		if err := applyFunnels(ctx, store, accountID, site.ID, stored, *file.Funnels, note); err != nil {
			return nil, fmt.Errorf("funnels: %w", err)
		}
	}

	if file.Annotations != nil {
		err := applyAnnotations(ctx, store, accountID, site.ID, stored, *file.Annotations, note)
		if err != nil {
			return nil, fmt.Errorf("annotations: %w", err)
		}
	}

	return changes, nil
}

func applySegments(
	ctx context.Context, store *sites.Store, accountID, siteID int64, stored *siteObjects, wanted []segmentFile,
	note func(list, name, change string),
) error {
	for _, segment := range stored.segments {
		if slices.ContainsFunc(wanted, func(w segmentFile) bool { return strings.TrimSpace(w.Name) == segment.Name }) {
			continue
		}
		if _, err := store.DeleteSegment(ctx, accountID, stored.segmentIDs[segment.Name]); err != nil {
			return fmt.Errorf("%s: %w", segment.Name, err)
		}
		note("segments", segment.Name, "deleted")
	}

	for _, segment := range wanted {
		filters := make([]model.ReportFilter, len(segment.Filters))
		for i, filter := range segment.Filters {
			filters[i] = model.ReportFilter(filter)
		}

		name := strings.TrimSpace(segment.Name)
		id, exists := stored.segmentIDs[name]

		var err error
		switch {
		case !exists:
			_, err = store.CreateSegment(ctx, accountID, model.Segment{SiteID: siteID, Name: name, Filters: filters})
			note("segments", name, "created")
		case !slices.ContainsFunc(stored.segments, func(s segmentFile) bool {
			return s.Name == name && reflect.DeepEqual(s.Filters, segment.Filters)
		}):
			_, err = store.UpdateSegment(ctx, accountID, id, nil, &filters)
			note("segments", name, "changed")
		}
		if err != nil {
			return fmt.Errorf("%s: %w", name, err)
		}
	}

	return nil
}

func applyFunnels(
	ctx context.Context, store *sites.Store, accountID, siteID int64, stored *siteObjects, wanted []funnelFile,
	note func(list, name, change string),
) error {
	for _, funnel := range stored.funnels {
		if slices.ContainsFunc(wanted, func(w funnelFile) bool { return strings.TrimSpace(w.Name) == funnel.Name }) {
			continue
		}
		if _, err := store.DeleteFunnel(ctx, accountID, stored.funnelIDs[funnel.Name]); err != nil {
			return fmt.Errorf("%s: %w", funnel.Name, err)
		}
		note("funnels", funnel.Name, "deleted")
	}

	for _, funnel := range wanted {
		steps := make([]model.FunnelStep, len(funnel.Steps))
		for i, step := range funnel.Steps {
			steps[i] = model.FunnelStep(step)
		}

		name := strings.TrimSpace(funnel.Name)
		id, exists := stored.funnelIDs[name]

		var err error
		switch {
		case !exists:
			_, err = store.CreateFunnel(ctx, accountID, model.Funnel{SiteID: siteID, Name: name, Steps: steps})
			note("funnels", name, "created")
		case !slices.ContainsFunc(stored.funnels, func(f funnelFile) bool {
			return f.Name == name && reflect.DeepEqual(f.Steps, funnel.Steps)
		}):
			_, err = store.UpdateFunnel(ctx, accountID, id, nil, &steps)
			note("funnels", name, "changed")
		}
		if err != nil {
			return fmt.Errorf("%s: %w", name, err)
		}
	}

	return nil
}

// applyAnnotations deletes first, because a site has a largest number of annotations. A note can be
// there several times.
func applyAnnotations(
	ctx context.Context, store *sites.Store, accountID, siteID int64, stored *siteObjects, wanted []annotationFile,
	note func(list, name, change string),
) error {
	var missing []annotationFile
	for _, annotation := range wanted {
		if ids := stored.annotationIDs[annotation]; len(ids) > 0 {
			stored.annotationIDs[annotation] = ids[1:]
		} else {
			missing = append(missing, annotation)
		}
	}

	for _, annotation := range stored.annotations {
		for _, id := range stored.annotationIDs[annotation] {
			if _, err := store.DeleteAnnotation(ctx, accountID, id); err != nil {
				return err
			}
			note("annotations", annotation.Day+" "+annotation.Text, "deleted")
		}

		delete(stored.annotationIDs, annotation)
	}

	for _, annotation := range missing {
		day, err := model.ParseDay(annotation.Day)
		if err != nil {
			return fmt.Errorf("%s: %w", annotation.Day, model.InvalidField("day", "invalid_day", "Use the form YYYY-MM-DD."))
		}

		_, err = store.CreateAnnotation(ctx, accountID,
			model.Annotation{SiteID: siteID, Day: day, Text: annotation.Text, CreatedAt: model.At(time.Now())})
		if err != nil {
			return fmt.Errorf("%s: %w", annotation.Day, err)
		}
		note("annotations", annotation.Day+" "+annotation.Text, "created")
	}

	return nil
}
