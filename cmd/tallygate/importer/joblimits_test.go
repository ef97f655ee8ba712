package importer_test

import (
	"strings"
	"testing"

	"github.com/tallygate/tallygate/db/model"
	"github.com/tallygate/tallygate/tools/dbtest"
	"github.com/tallygate/tallygate/tools/testkit"
)

// TestBytesOfADay checks what the imports of an account may read on a day: the uncompressed bytes
// of each preview count, also of an import that fails; the same account may read more on the next
// day, with a paid plan, or with an operator.
func TestBytesOfADay(t *testing.T) {
	dbtest.EachURL(t, func(t *testing.T, databaseURL string) {
		f := newJobFixture(t, databaseURL, nil, nil)
		f.exec("UPDATE users SET operator = ?", false)
		content := "date,visitors,pageviews,bounces,visits\n" + strings.Repeat("2026-02-01,1,1,0,1\n", 200)
		export := file(t, "imported_visitors.csv", content)
		size := int64(len(content))

		// An archive counts with what is in it, once: reading it again to store it is free.
		job := f.start(model.ImportPlausible, zipped(t, export))
		if read := f.run(false, job.ID); read.State != model.JobReady || read.BytesRead != size {
			t.Fatalf("the job is %+v, want %d bytes", read, size)
		}
		f.confirm(job.ID)
		if done := f.run(false, job.ID); done.State != model.JobComplete || done.BytesRead != size {
			t.Fatalf("the job is %+v, want %d bytes", done, size)
		}
		f.undo(f.job(job.ID).ImportID)

		damaged := file(t, "imported_visitors.csv", content+"2026-02-01,x,1,0,1\n")
		if failed := f.run(false, f.start(model.ImportPlausible, damaged).ID); failed.State != model.JobFailed || failed.BytesRead <= size {
			t.Fatalf("the damaged job is %+v", failed)
		}

		// Less is left than the archive has, and more than its own size.
		f.exec("UPDATE import_jobs SET bytes_read = ? WHERE id = ?", model.MaxFreeImportBytes-2*size+100, job.ID)
		over := f.start(model.ImportPlausible, zipped(t, export))
		failed := f.run(false, over.ID)
		if failed.State != model.JobFailed || failed.ErrorCode != "too_many_import_bytes" ||
			!strings.Contains(failed.ErrorText, "2026-02-07 may read 0 MB more") ||
			!strings.Contains(failed.ErrorText, "00:00 UTC") {
			t.Errorf("the job beyond the bytes is %+v", failed)
		}
		try := func(size int64) error {
			_, err := f.store.Start(f.by(), f.site.AccountID, model.ImportJob{
				SiteID: f.site.ID, Source: model.ImportPlausible, Files: []model.UploadFile{{Name: "imported_visitors.csv", Size: size}},
			}, "", f.now)
			return err
		}
		dbtest.WantCode(t, try(size), model.Conflict, "too_many_import_bytes", "files")

		// A worker that takes over a job reads it again, whatever the one before has read.
		f.exec("UPDATE import_jobs SET state = 1, bytes_read = ?, error_code = '', finished_at = 0 WHERE id = ?", model.MaxFreeImportBytes, over.ID)
		f.exec("UPDATE import_jobs SET bytes_read = 0 WHERE id <> ?", over.ID)
		if read := f.run(false, over.ID); read.State != model.JobReady || read.BytesRead != size {
			t.Errorf("the repeated job is %+v, want %d bytes", read, size)
		}
		if _, err := f.store.Cancel(f.by(), f.site.AccountID, over.ID, f.now); err != nil {
			t.Fatal(err)
		}

		f.exec("UPDATE import_jobs SET bytes_read = ? WHERE id = ?", model.MaxFreeImportBytes, job.ID)
		dbtest.WantCode(t, try(1), model.Conflict, "too_many_import_bytes", "files")
		cancel := func(when string) {
			t.Helper()
			if err := try(1); err != nil {
				t.Errorf("%s: %v", when, err)
				return
			}
			list, err := f.store.JobsOfSites(t.Context(), []model.SiteID{f.site.ID})
			if err == nil {
				_, err = f.store.Cancel(f.by(), f.site.AccountID, list[f.site.ID][0].ID, f.now)
			}
			testkit.NoError(t, err)
		}
		for when, set := range map[string][2]string{
			"with a paid site":    {"UPDATE sites SET plan = 'PRO_100K'", "UPDATE sites SET plan = 'FREE'"},
			"with a paid captcha": {"UPDATE accounts SET captcha_plan = 'PRO_100K'", "UPDATE accounts SET captcha_plan = 'FREE'"},
			"with an operator":    {"UPDATE users SET operator = (1 = 1)", "UPDATE users SET operator = (1 = 0)"},
		} {
			f.exec(set[0])
			cancel(when)
			f.exec(set[1])
		}
		dbtest.WantCode(t, try(1), model.Conflict, "too_many_import_bytes", "files")
		f.now = (f.now.Day() + 1).Start()
		cancel("on the next day")
	})
}
