package resolver

import (
	"context"
	"math"
	"strings"

	"github.com/tallygate/tallygate/db/model"
	"github.com/tallygate/tallygate/graph/auth"
	"github.com/tallygate/tallygate/graph/generated"
)

// Imports of other services' figures, and the jobs that import them.

func (r *siteResolver) Imports(ctx context.Context, obj *model.Site) ([]*model.ReportImport, error) {
	list, err := requestOf(ctx).loaders().Imports().Of(ctx, obj.ID)
	return orEmpty(list), err
}

func (r *siteResolver) ImportJobs(ctx context.Context, obj *model.Site) ([]*model.ImportJob, error) {
	list, err := requestOf(ctx).loaders().ImportJobs().Of(ctx, obj.ID)
	return orEmpty(list), err
}

func (r *reportImportResolver) ImportedBy(ctx context.Context, obj *model.ReportImport) (*string, error) {
	caller, err := auth.CallerOf(ctx)
	if err != nil || caller.User != nil && caller.User.IsGuestOfAny(obj.SiteID) {
		return nil, err
	}
	return notZero(obj.ImportedBy), nil
}

func (r *importJobResolver) Progress(ctx context.Context, obj *model.ImportJob) (float64, error) {
	return float64(obj.Progress) / 1000, nil
}

func (r *importJobResolver) Address(ctx context.Context, obj *model.ImportJob) (*string, error) {
	return notZero(obj.Address), nil
}

func (r *importJobResolver) Preview(ctx context.Context, obj *model.ImportJob) (*generated.ImportPreview, error) {
	p := obj.Preview
	if p == nil {
		return nil, nil
	}

	shown := &generated.ImportPreview{
		Files: []*generated.ImportPreviewFile{}, Notes: []*generated.ImportNote{},
		OwnRows: p.Late, OwnFrom: p.Own, OtherRows: p.Other, FirstDay: p.First, LastDay: p.Last, Days: p.Days,
		Visitors: p.Visitors, Visits: p.Visits, Pageviews: p.Pageviews, Events: p.Events,
	}
	for _, f := range p.Files {
		file := &generated.ImportPreviewFile{Name: f.Name, Rows: f.Rows, Unused: notZero(f.Unused.Text())}
		if code := generated.ImportUnusedCode(strings.ToUpper(string(f.Unused))); code.IsValid() {
			file.UnusedCode = &code
		}
		shown.Files = append(shown.Files, file)
	}
	for _, n := range p.Notes {
		note := &generated.ImportNote{
			Code: generated.ImportNoteCode(strings.ToUpper(n.Code)), Column: notZero(n.Column), Events: []*generated.ImportedEvent{}, Text: n.Text(),
		}
		for _, event := range n.Events {
			note.Events = append(note.Events, &generated.ImportedEvent{Name: event.Name, ReportedAs: event.As})
		}
		if n.Count > 0 {
			note.Count = &n.Count
		}
		shown.Notes = append(shown.Notes, note)
	}
	return shown, nil
}

func (r *importJobResolver) Error(ctx context.Context, obj *model.ImportJob) (*generated.ImportError, error) {
	if obj.ErrorCode == "" {
		return nil, nil
	}
	v := &obj.ErrorValues
	failed := &generated.ImportError{
		Code: generated.ImportErrorCode(strings.ToUpper(obj.ErrorCode)), Message: obj.ErrorText, File: notZero(obj.ErrorFile),
		Name: notZero(v.Name), Value: notZero(v.Value), Count: v.Count, Limit: v.Limit, Source: notZero(v.Source),
		Line: notZero(obj.ErrorLine), FirstDay: notZero(v.First), LastDay: notZero(v.Last),
	}
	if fault := generated.ImportFault(strings.ToUpper(string(v.Fault))); fault.IsValid() {
		failed.Fault = &fault
	}
	return failed, nil
}

func (r *mutationResolver) StartImport(
	ctx context.Context, input generated.StartImportInput,
) (*generated.ImportJobPayload, error) {
	member, siteID := granted[model.SiteID](ctx)

	// Another account's site is unknown, whatever the input.
	if _, err := r.sites.SiteByID(ctx, member.AccountID, siteID); err != nil {
		return nil, err
	}

	job := model.ImportJob{
		SiteID: siteID, Source: input.Source, Address: orBlank(input.Address), FirstDay: math.MinInt32, LastDay: math.MaxInt32,
	}
	if input.FirstDay != nil {
		job.FirstDay = *input.FirstDay
	}
	if input.LastDay != nil {
		job.LastDay = *input.LastDay
	}
	for _, f := range input.Files {
		job.Files = append(job.Files, model.UploadFile{Name: f.Name, Size: f.Size})
	}
	if job.IsAPI() {
		// The same rule as for webhooks, which the worker checks again when it connects.
		if err := model.CheckWebhookURL("address", job.Address, r.webhookNets); err != nil {
			return nil, err
		}
	}

	started, err := r.imports.Start(ctx, member.AccountID, job, orBlank(input.Token), requestOf(ctx).now)
	return &generated.ImportJobPayload{ImportJob: started}, err
}

func (r *mutationResolver) ConfirmImport(
	ctx context.Context, _ generated.ConfirmImportInput,
) (*generated.ImportJobPayload, error) {
	member, id := granted[model.ImportJobID](ctx)
	job, err := r.imports.Confirm(ctx, member.AccountID, id, requestOf(ctx).now)
	return &generated.ImportJobPayload{ImportJob: job}, err
}

func (r *mutationResolver) CancelImport(
	ctx context.Context, _ generated.CancelImportInput,
) (*generated.ImportJobPayload, error) {
	member, id := granted[model.ImportJobID](ctx)
	job, err := r.imports.Cancel(ctx, member.AccountID, id, requestOf(ctx).now)
	return &generated.ImportJobPayload{ImportJob: job}, err
}

// UndoImport hides the import. The worker deletes its rows.
func (r *mutationResolver) UndoImport(
	ctx context.Context, _ generated.UndoImportInput,
) (*generated.UndoImportPayload, error) {
	member, id := granted[model.ImportID](ctx)
	undone, err := r.imports.Undo(ctx, member.AccountID, id)
	return &generated.UndoImportPayload{Import: undone}, err
}
