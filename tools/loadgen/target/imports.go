package target

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"net/url"
	"strconv"

	"github.com/tallygate/tallygate/db/model"
	"github.com/tallygate/tallygate/graph/client"
)

// ImportJob is an import of another service's figures.
type ImportJob struct {
	ID       string
	State    string
	Progress float64
	Error    *struct{ Code string } // nil unless it failed
}

// importPayload is the payload of a mutation of an import job.
type importPayload struct {
	ImportJob  ImportJob
	UserErrors []client.Mistake
}

// GetUserErrors implements client.Payload.
func (p *importPayload) GetUserErrors() []client.Mistake { return p.UserErrors }

// StartImport starts an import of one file of Umami for a site, and uploads it in pieces as the
// console does. It returns the job's id.
func (a *Account) StartImport(ctx context.Context, siteID, name string, content []byte) (job string, err error) {
	const document = `mutation ($input: StartImportInput!) { payload: startImport(input: $input) { importJob { id } userErrors { code message } } }`
	started, err := a.changeImport(ctx, document, map[string]any{
		"siteId": siteID, "source": "UMAMI", "files": []map[string]any{{"name": name, "size": len(content)}},
	})
	if err != nil {
		return "", fmt.Errorf("startImport: %w", err)
	}

	for offset := 0; offset < len(content); offset += model.ImportChunk {
		piece := content[offset:min(len(content), offset+model.ImportChunk)]
		if err := a.upload(ctx, started.ID, offset, piece); err != nil {
			return "", fmt.Errorf("upload at %d: %w", offset, err)
		}
	}
	return started.ID, nil
}

// ConfirmImport lets the worker store an import that is ready.
func (a *Account) ConfirmImport(ctx context.Context, job string) error {
	_, err := a.changeImport(ctx, `mutation ($input: ConfirmImportInput!) { payload: confirmImport(input: $input) { importJob { id } userErrors { code message } } }`,
		map[string]any{"importJobId": job})
	return err
}

// CancelImport ends an import that is in progress.
func (a *Account) CancelImport(ctx context.Context, job string) error {
	_, err := a.changeImport(ctx, `mutation ($input: CancelImportInput!) { payload: cancelImport(input: $input) { importJob { id } userErrors { code message } } }`,
		map[string]any{"importJobId": job})
	return err
}

func (a *Account) changeImport(ctx context.Context, document string, input map[string]any) (ImportJob, error) {
	var data struct{ Payload importPayload }
	err := a.Ask(ctx, document, map[string]any{"input": input}, &data)
	return data.Payload.ImportJob, client.Refused(err, &data.Payload)
}

// LatestImport returns the newest import job of a site.
func (a *Account) LatestImport(ctx context.Context, siteID string) (ImportJob, error) {
	var data struct {
		Site struct{ ImportJobs []ImportJob }
	}
	err := a.Ask(ctx, `query ($id: ID!) { site(id: $id) { importJobs { id state progress error { code } } } }`,
		map[string]any{"id": siteID}, &data)
	if err == nil && len(data.Site.ImportJobs) == 0 {
		err = fmt.Errorf("site %s has no import", siteID)
	}
	if err != nil {
		return ImportJob{}, err
	}
	return data.Site.ImportJobs[0], nil
}

// upload sends one piece of the files of a job.
func (a *Account) upload(ctx context.Context, job string, offset int, piece []byte) error {
	address := a.Target.Control + "/products/analytics/api/import.php?" +
		url.Values{"job_id": {job}, "offset": {strconv.Itoa(offset)}}.Encode()
	request, err := http.NewRequestWithContext(ctx, http.MethodPut, address, bytes.NewReader(piece))
	if err != nil {
		return err
	}
	a.authorize(request)

	response, err := a.http.Do(request)
	if err != nil {
		return err
	}
	defer response.Body.Close()

	var reply struct {
		Received int
		Error    string
	}
	if err := json.NewDecoder(response.Body).Decode(&reply); err != nil {
		return fmt.Errorf("%s: %w", response.Status, err)
	}
	if response.StatusCode != http.StatusOK || reply.Received != offset+len(piece) {
		return fmt.Errorf("%s: %+v", response.Status, reply)
	}
	return nil
}
