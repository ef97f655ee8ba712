package model

import "time"

// Limits of imports that the console starts.
const (
	// MaxUpload is the size of all files of a job. A larger export is imported in parts.
	MaxUpload = 256 << 20
	// MaxUploadFiles is the number of files of a job.
	MaxUploadFiles = 100
	// MaxUploadName is the length of a file's name in characters.
	MaxUploadName = 200
	// ImportChunk is the size of the pieces of an upload. The last one can be shorter.
	ImportChunk = 1 << 20

	// MaxImportJobs is how many jobs of an account are open at once: one of a site.
	MaxImportJobs = 3
	// MaxImportStarts is how many jobs an account can start within a day.
	MaxImportStarts = 30
	// MaxImportBytes is how much the imports that an account starts on a UTC day may read,
	// uncompressed.
	MaxImportBytes = 32 << 30
	// MaxFreeImportBytes is MaxImportBytes of an account without a paid plan.
	MaxFreeImportBytes = 1 << 30
	// MaxUploads bounds the uploads of all accounts that the database holds at once, in bytes.
	MaxUploads = 8 << 30

	// ImportJobExpiry is how long a job waits for its upload, its turn or its confirmation.
	ImportJobExpiry = 24 * time.Hour
	// ImportJobHistory is how long a finished job stays in the list.
	ImportJobHistory = 30 * 24 * time.Hour
	// MaxListedImportJobs is how many jobs of a site are listed.
	MaxListedImportJobs = 5
	// MaxPreviewFiles is how many files a preview names.
	MaxPreviewFiles = 100
	// MaxImportAttempts is how often a step of a job is run again after its worker has died.
	MaxImportAttempts = 5
)

// ImportJobState is the step of an ImportJob.
type ImportJobState int16

// The steps. From JobComplete on a job is finished.
const (
	JobUploading ImportJobState = iota
	JobReading                  // waits for a worker, or is read by one
	JobReady                    // waits for its confirmation
	JobStoring                  // waits for a worker, or is stored by one
	JobComplete
	JobFailed
	JobCanceled
)

// UploadFile is a file of an upload.
type UploadFile struct {
	Name string `json:"name"`
	Size int64  `json:"size"`
}

// ImportJob reads an export for a site, and stores it once it is confirmed.
type ImportJob struct {
	ID         ImportJobID    `bun:",pk,autoincrement"`
	SiteID     SiteID         `bun:",notnull"`
	Source     ImportSource   `bun:",notnull"`
	State      ImportJobState `bun:",notnull"`
	CreatedAt  Instant        `bun:",notnull"`
	ExpiresAt  Instant        `bun:",notnull"`
	FinishedAt Instant        `bun:",notnull"` // 0: not finished

	Files    []UploadFile `bun:"-"`
	Size     int64        `bun:",notnull"` // of all files
	Received int64        `bun:",notnull"` // bytes of the upload so far
	Address  string       `bun:",notnull"` // of an API; empty: there are files
	Token    []byte       `bun:",nullzero"`

	FirstDay, LastDay Day            `bun:",notnull"` // of the days that are imported
	Progress          int16          `bun:",notnull"` // of reading or storing, in thousandths
	Preview           *ImportPreview `bun:"-"`        // nil: not read yet
	ImportID          ImportID       `bun:",notnull"` // 0: not complete
	Attempts          int            `bun:",notnull"` // runs of the present step
	BytesRead         int64          `bun:",notnull"` // for the preview, uncompressed
	Ran               int64          `bun:",notnull"` // microseconds, of all steps

	ErrorCode   string       `bun:",notnull"`
	ErrorText   string       `bun:",notnull"`
	ErrorFile   string       `bun:",notnull"` // a file of the export; empty: no single one
	ErrorLine   int          `bun:",notnull"` // 0: the whole file
	ErrorValues ImportValues `bun:"-"`
}

// IsAPI reports whether the job reads an API.
func (j *ImportJob) IsAPI() bool { return j.Source == ImportGoatCounterSums }

// ImportPreview is what a job has read.
type ImportPreview struct {
	Files []ImportedFile `json:"files"`
	Notes []ImportNote   `json:"notes"`
	Late  int64          `json:"late"`  // rows of days that the site counts itself
	Other int64          `json:"other"` // rows of days that are not wanted
	// Own and OwnUTC are the first day that the site counts itself, or today, of its time zone and
	// of UTC.
	Own    Day `json:"own"`
	OwnUTC Day `json:"ownUtc"`

	First     Day   `json:"first"`
	Last      Day   `json:"last"`
	Days      int   `json:"days"` // with anything
	Visitors  int64 `json:"visitors"`
	Visits    int64 `json:"visits"`
	Pageviews int64 `json:"pageviews"`
	Events    int64 `json:"events"`
}

// ImportedFile is a file of an export.
type ImportedFile struct {
	Name   string       `json:"name"`
	Rows   int64        `json:"rows"`
	Unused ImportUnused `json:"unused,omitempty"` // why it is not imported; empty: it is
}

// ImportUnused is the code of a reason why a file of an export is not imported.
type ImportUnused string

// The reasons why files are not imported.
const (
	UnusedEmpty           ImportUnused = "empty"
	UnusedEventProperties ImportUnused = "event_properties"
)

// unusedTexts are the texts of the reasons.
var unusedTexts = map[ImportUnused]string{
	UnusedEmpty:           "it has no data",
	UnusedEventProperties: "properties of events are not imported",
}

// Text returns the reason in English.
func (u ImportUnused) Text() string { return unusedTexts[u] }
