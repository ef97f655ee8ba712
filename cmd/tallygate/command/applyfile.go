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

// applyAccount applies the settings of the account itself.
func (a *applier) applyAccount(ctx context.Context, file *sitesFile) error {
	before, err := a.store.Sites.AccountSettings(ctx, a.accountID)
	if err != nil {
		return err
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
		return nil
	}
	if err := a.store.Sites.SetAccountSettings(ctx, a.accountID, after); err != nil {
		return refused("account", err)
	}

	limit := func(limit *int64) string {
		if limit == nil {
			return "the default"
		}
		return fmt.Sprint(*limit)
	}
	a.noteChanged("account", "accountName", before.Name, after.Name)
	a.noteChanged("account", "captchaPlan", string(before.CaptchaPlan), string(after.CaptchaPlan))
	a.noteChanged("account", "siteLimit", limit(before.SiteLimit), limit(after.SiteLimit))

	return nil
}

// newSiteKey returns the site key of a new site: the given one, or a random one.
func newSiteKey(ctx context.Context, store *sites.Owned, given *string) (string, error) {
	if given == nil {
		return model.NewSiteKey(), nil
	}
	if !model.IsSiteKey(*given) {
		return "", model.InvalidField("siteKey", "invalid_site_key", "A site key is 32 hexadecimal characters.")
	}

	taken, err := store.Sites.IsKeyTaken(ctx, *given)
	if err != nil {
		return "", err
	}
	if taken {
		return "", model.InvalidField("siteKey", "invalid_site_key", "Another site has this site key.")
	}

	return *given, nil
}

// applySitekeys applies the settings of captcha sitekeys.
func (a *applier) applySitekeys(ctx context.Context, files []sitekeyFile) error {
	list, err := a.store.Sitekeys.Sitekeys(ctx, a.accountID, 0, model.MaxSitekeys)
	if err != nil {
		return err
	}

	existing := make(map[string]*model.Sitekey, len(list))
	for _, key := range list {
		existing[key.Sitekey] = key
	}

	for _, file := range files {
		if err := a.applySitekey(ctx, existing[file.Sitekey], file); err != nil {
			return refused(cmp.Or(file.Sitekey, "sitekeys"), err)
		}
	}

	return nil
}

// applySitekey creates or changes one sitekey. key is the existing one, or nil.
func (a *applier) applySitekey(ctx context.Context, key *model.Sitekey, file sitekeyFile) error {
	domains, err := a.sitekeyDomains(file.Domains)
	if err != nil {
		return err
	}

	if key == nil {
		name, bound := file.Sitekey, []string{}
		if file.Name != nil {
			name = *file.Name
		}
		if domains != nil {
			bound = *domains
		}

		a.note("%s: created; rotate its secret to get one", file.Sitekey)
		key, _, err = a.store.Sitekeys.CreateSitekeyAs(ctx, a.accountID, file.Sitekey, name, bound, model.At(time.Now()))
		if err != nil {
			return err
		}
	}

	if err := a.applyPolicy(ctx, key, file.Policy); err != nil {
		return err
	}

	if (file.Name == nil || *file.Name == key.Name) && (domains == nil || slices.Equal(*domains, key.Domains)) {
		return nil
	}

	changed, err := a.store.Sitekeys.UpdateSitekey(ctx, a.accountID, key.ID, sites.SitekeyUpdate{Name: file.Name, Domains: domains})
	if err != nil {
		return err
	}

	a.noteChanged(key.Sitekey, "name", key.Name, changed.Name)
	a.noteChanged(key.Sitekey, "domains", fmt.Sprint(key.Domains), fmt.Sprint(changed.Domains))
	return nil
}

// applyPolicy changes the policy of a sitekey, if the file has another one.
func (a *applier) applyPolicy(ctx context.Context, key *model.Sitekey, file *policyFile) error {
	if file == nil {
		return nil
	}

	update := sites.PolicyUpdate{
		BaseMS: model.WorkMS(file.BaseSeconds), MaxMS: model.WorkMS(file.MaxSeconds), Free: file.Free, Strict: file.Strict,
		Exempt: file.Exempt,
	}
	if file.Automation != nil {
		update.Automation = new(model.CaptchaAutomation(*file.Automation))
	}
	if file.AttackMode != nil {
		update.AttackMode = new(model.CaptchaAttackMode(*file.AttackMode))
	}

	wanted := update.Apply(key.Policy)
	if err := wanted.Check(); err != nil || wanted.Text() == key.Policy.Text() {
		return err
	}

	changed, err := a.store.Sitekeys.UpdatePolicy(ctx, a.accountID, key.ID, update)
	if err != nil {
		return err
	}
	a.noteChanged(key.Sitekey, "policy", key.Policy.Text(), changed.Policy.Text())
	return nil
}

// applyObjects applies a site's segments, funnels and annotations: a list of the file replaces the
// stored one.
func (a *applier) applyObjects(ctx context.Context, site *model.SiteRules, file siteFile) error {
	stored, err := readObjects(ctx, a.store, site.ID)
	if err != nil {
		return err
	}

	if file.Segments != nil {
		if err := applyNamed(ctx, a, site, "segments", stored.segments, stored.segmentIDs, *file.Segments); err != nil {
			return err
		}
	}
	if file.Funnels != nil {
		if err := applyNamed(ctx, a, site, "funnels", stored.funnels, stored.funnelIDs, *file.Funnels); err != nil {
			return err
		}
	}
	if file.Annotations != nil {
		return a.applyAnnotations(ctx, site, stored, *file.Annotations)
	}

	return nil
}

// namedObject is a segment or a funnel in the file. The site has it once with a name.
type namedObject interface {
	name() string
	content() any
	create(ctx context.Context, a *applier, siteID model.SiteID) error
	update(ctx context.Context, a *applier, id int64) error
	remove(ctx context.Context, a *applier, id int64) error
}

// applyNamed replaces a list of named objects. It deletes first, because a site has a largest
// number of them.
func applyNamed[T namedObject](
	ctx context.Context, a *applier, site *model.SiteRules, list string, stored []T, ids map[string]int64, wanted []T,
) error {
	content := make(map[string]any, len(stored))
	for _, object := range stored {
		name := object.name()
		content[name] = object.content()

		if slices.ContainsFunc(wanted, func(w T) bool { return w.name() == name }) {
			continue
		}
		if err := object.remove(ctx, a, ids[name]); err != nil {
			return fmt.Errorf("%s: %s: %w", list, name, err)
		}
		a.note("%s: %s: %q deleted", site.Domain, list, name)
	}

	for _, object := range wanted {
		name := object.name()
		id, exists := ids[name]

		var err error
		switch {
		case !exists:
			err = object.create(ctx, a, site.ID)
			a.note("%s: %s: %q created", site.Domain, list, name)
		case !reflect.DeepEqual(object.content(), content[name]):
			err = object.update(ctx, a, id)
			a.note("%s: %s: %q changed", site.Domain, list, name)
		}
		if err != nil {
			return fmt.Errorf("%s: %s: %w", list, name, err)
		}
	}

	return nil
}

func (f segmentFile) name() string { return strings.TrimSpace(f.Name) }

func (f segmentFile) content() any { return f.filters() }

func (f segmentFile) filters() []model.ReportFilter {
	filters := make([]model.ReportFilter, len(f.Filters))
	for i, filter := range f.Filters {
		filters[i] = model.ReportFilter(filter)
	}
	return filters
}

func (f segmentFile) create(ctx context.Context, a *applier, siteID model.SiteID) error {
	segment := model.Segment{SiteID: siteID, Name: f.name(), Filters: f.filters()}
	_, err := a.store.Objects.CreateSegment(ctx, a.accountID, segment)
	return err
}

func (f segmentFile) update(ctx context.Context, a *applier, id int64) error {
	filters := f.filters()
	_, err := a.store.Objects.UpdateSegment(ctx, a.accountID, model.SegmentID(id), nil, &filters)
	return err
}

func (f segmentFile) remove(ctx context.Context, a *applier, id int64) error {
	_, err := a.store.Objects.DeleteSegment(ctx, a.accountID, model.SegmentID(id))
	return err
}

func (f funnelFile) name() string { return strings.TrimSpace(f.Name) }

func (f funnelFile) content() any { return f.steps() }

func (f funnelFile) steps() []model.FunnelStep {
	steps := make([]model.FunnelStep, len(f.Steps))
	for i, step := range f.Steps {
		steps[i] = model.FunnelStep(step)
	}
	return steps
}

func (f funnelFile) create(ctx context.Context, a *applier, siteID model.SiteID) error {
	_, err := a.store.Objects.CreateFunnel(ctx, a.accountID, model.Funnel{SiteID: siteID, Name: f.name(), Steps: f.steps()})
	return err
}

func (f funnelFile) update(ctx context.Context, a *applier, id int64) error {
	steps := f.steps()
	_, err := a.store.Objects.UpdateFunnel(ctx, a.accountID, model.FunnelID(id), nil, &steps)
	return err
}

func (f funnelFile) remove(ctx context.Context, a *applier, id int64) error {
	_, err := a.store.Objects.DeleteFunnel(ctx, a.accountID, model.FunnelID(id))
	return err
}

// applyAnnotations deletes first, because a site has a largest number of annotations. A note can be
// there several times.
func (a *applier) applyAnnotations(
	ctx context.Context, site *model.SiteRules, stored *siteObjects, wanted []annotationFile,
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
			if _, err := a.store.Objects.DeleteAnnotation(ctx, a.accountID, id); err != nil {
				return fmt.Errorf("annotations: %w", err)
			}
			a.note("%s: annotations: %q deleted", site.Domain, annotation.Day+" "+annotation.Text)
		}

		delete(stored.annotationIDs, annotation)
	}

	for _, annotation := range missing {
		day, err := model.ParseDay(annotation.Day)
		if err != nil {
			err = model.InvalidField("day", "invalid_day", "Use the form YYYY-MM-DD.")
		} else {
			_, err = a.store.Objects.CreateAnnotation(ctx, a.accountID,
				model.Annotation{SiteID: site.ID, Day: day, Text: annotation.Text, CreatedAt: model.At(time.Now())})
		}
		if err != nil {
			return fmt.Errorf("annotations: %s: %w", annotation.Day, err)
		}

		a.note("%s: annotations: %q created", site.Domain, annotation.Day+" "+annotation.Text)
	}

	return nil
}
