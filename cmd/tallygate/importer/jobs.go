package importer

import (
	"context"
	"errors"
	"net/http"
	"time"

	"github.com/tallygate/tallygate/db/imports"
	"github.com/tallygate/tallygate/db/model"
	"github.com/tallygate/tallygate/jobs/importjob"
)

// Jobs reads exports for the worker.
type Jobs struct{}

var _ importjob.Reader = Jobs{}

// ReadFiles implements importjob.Reader.
func (Jobs) ReadFiles(
	ctx context.Context, source model.ImportSource, files []*imports.File, b importjob.Bounds,
) (*importjob.Reading, error) {
	inputs := make([]Input, len(files))
	for i, f := range files {
		inputs[i] = Input{Name: f.Name, Data: f, Size: f.Size}
	}
	read, err := ReadInputs(ctx, source, inputs, optionsOf(b))
	return readingOf(ctx, read, err)
}

// ReadAPI implements importjob.Reader.
func (Jobs) ReadAPI(
	ctx context.Context, client *http.Client, address, token string, zone *time.Location, b importjob.Bounds,
) (*importjob.Reading, error) {
	o := optionsOf(b)
	o.Client, o.Progress = client, b.Progress
	read, err := FetchGoatCounter(ctx, address, token, zone, o)
	return readingOf(ctx, read, err)
}

func optionsOf(b importjob.Bounds) Options {
	return Options{
		Domains: b.Domains, Since: b.Since, Until: b.Until, BeforeLocal: b.BeforeLocal, BeforeUTC: b.BeforeUTC,
		Memory: b.Memory, Count: b.Count,
	}
}

// readingOf returns a result with its preview, or a mistake of the export as a
// *model.ImportFailure. Errors of calls keep their chain.
func readingOf(ctx context.Context, r *Result, err error) (*importjob.Reading, error) {
	var call interface{ Timeout() bool }
	switch {
	case ctx.Err() != nil:
		return nil, context.Cause(ctx)
	case errors.As(err, &call):
		return nil, err
	case err != nil:
		if _, ok := errors.AsType[*model.ImportFailure](err); !ok {
			err = model.Damaged(model.FaultUnreadable, model.ImportValues{Value: err.Error()})
		}
		return nil, err
	}

	preview := model.ImportPreview{
		Notes: r.Notes, Late: r.Late, Other: r.Other, First: r.First, Last: r.Last, Days: r.Days,
		Visitors: r.Totals.Visitors, Visits: r.Totals.Visits, Pageviews: r.Totals.Pageviews, Events: r.Totals.Events,
	}
	for _, f := range r.Files[:min(len(r.Files), model.MaxPreviewFiles)] {
		preview.Files = append(preview.Files, model.ImportedFile(f))
	}
	return &importjob.Reading{Import: &r.Import, Preview: preview}, nil
}
