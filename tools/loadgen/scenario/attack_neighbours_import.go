package scenario

import (
	"context"
	"encoding/binary"
	"fmt"
	"time"

	"github.com/tallygate/tallygate/tools/loadgen/load"
	"github.com/tallygate/tallygate/tools/loadgen/target"
)

// importPoll is the pause between two looks at an import job.
const importPoll = 500 * time.Millisecond

// makeExport makes an export of Umami with as many columns as Umami writes.
func (a *neighbourAttack) makeExport(ctx context.Context) error {
	a.content = umamiExport(a.Import << 20)
	return a.open(ctx)
}

// umamiExport returns rows of Umami's table website_event of some 500 bytes, up to a size. Each
// third page view begins a visit.
func umamiExport(size int) []byte {
	b := make([]byte, 0, size)
	b = append(b, "website_id,session_id,visit_id,event_id,hostname,browser,os,device,screen,language,country,url_path,url_query,referrer_path,referrer_query,referrer_domain,page_title,event_type,event_name,created_at\n"...)
	first := time.Date(2018, 1, 1, 0, 0, 0, 0, time.UTC)
	var row []byte
	for n := 0; ; n++ {
		visit := n / 3
		row = fmt.Appendf(row[:0], "0b1e9c3a-5d0f-4a52-9d1b-3d1f0c6a7e55,%08[1]x-1111-4222-8333-%012[1]x,%08[1]x-5555-4666-8777-%012[1]x,%08[2]x-9999-4aaa-8bbb-%012[2]x,"+
			"www.attacker.example,chrome,Windows 10,desktop,1920x1080,en-US,DE,/articles/%[3]d/a-title-of-some-length-in-the-address,utm_source=newsletter&utm_campaign=week-%[4]d,"+
			"/search/results,q=something+that+was+looked+for&page=2,ref%[4]d.example.org,A title of an article with as many words as titles have - part %[3]d,1,,%[5]s\n",
			visit, n, n%5000, n%50, first.Add(time.Duration(n)*time.Minute).Format(time.DateTime))
		if len(b)+len(row) > size {
			return b
		}
		b = append(b, row...)
	}
}

// makeDirectory makes an archive that is only a list of files.
func (a *neighbourAttack) makeDirectory(ctx context.Context) error {
	a.content = listOfFiles(a.Directory << 20)
	return a.open(ctx)
}

// listOfFiles returns a ZIP archive of a size with no file, but as many entries in its directory as
// fit: the shortest ones. The trailer counts them modulo 65,536, which readers accept.
func listOfFiles(size int) []byte {
	const file, entry, trailer = 30, 46, 22
	entries := (size - file - trailer) / entry
	b := make([]byte, file, size)
	copy(b, "PK\x03\x04")
	for range entries {
		b = append(b, "PK\x01\x02"...)
		b = append(b, make([]byte, entry-4)...)
	}

	b = append(b, "PK\x05\x06\x00\x00\x00\x00"...)
	b = binary.LittleEndian.AppendUint16(b, uint16(entries))
	b = binary.LittleEndian.AppendUint16(b, uint16(entries))
	b = binary.LittleEndian.AppendUint32(b, uint32(entries*entry))
	return append(binary.LittleEndian.AppendUint32(b, file), 0, 0)
}

// runImport uploads the import, waits for its preview, stores it, and returns how long each took.
// An import that takes too long is canceled.
func (a *neighbourAttack) runImport(ctx context.Context) (string, error) {
	began := time.Now()
	job, err := a.tenant.StartImport(ctx, a.site.ID, "export", a.content)
	if code := target.CodeOf(err); code != "" {
		return code, nil
	}
	if err != nil {
		return "", err
	}

	deadline := time.Now().Add(a.Patience)
	text := fmt.Sprintf("%d MB uploaded in %.0f s", len(a.content)>>20, time.Since(began).Seconds())
	for _, step := range []struct{ name, running, done string }{{"read", "READING", "READY"}, {"stored", "STORING", "COMPLETE"}} {
		began := time.Now()
		last, err := a.awaitImport(ctx, step.running, deadline)
		took := time.Since(began).Seconds()
		switch {
		case err != nil:
			return text, err
		case last.State == step.running:
			return fmt.Sprintf("%s, %.0f %% %s in %.0f s", text, 100*last.Progress, step.name, took), a.tenant.CancelImport(ctx, job)
		case last.Error != nil:
			return fmt.Sprintf("%s, %s after %.0f s", text, last.Error.Code, took), nil
		}
		text += fmt.Sprintf(", %s in %.0f s", step.name, took)

		if last.State == "READY" {
			if err := a.tenant.ConfirmImport(ctx, job); err != nil {
				return text, err
			}
		}
	}
	return text, nil
}

// awaitImport waits until the site's import has left a state, or until the deadline.
func (a *neighbourAttack) awaitImport(ctx context.Context, state string, deadline time.Time) (job target.ImportJob, err error) {
	for {
		job, err = a.tenant.LatestImport(ctx, a.site.ID)
		if err != nil && !target.IsRateLimited(err) || err == nil && (job.State != state || time.Now().After(deadline)) {
			return job, err
		}
		if err := load.Wait(ctx, importPoll); err != nil {
			return job, err
		}
	}
}
