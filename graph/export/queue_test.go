package export

import (
	"net/http"
	"time"
)

// Queue is a download handler whose queue is visible to tests.
type Queue struct {
	http.Handler
	downloads *downloads
}

// NewQueue is Handler with another maximum wait.
func NewQueue(options Options, wait time.Duration) Queue {
	o := newDownloads(options)
	o.queue.Patience = wait
	return Queue{o, o}
}

// Waiting returns the number of waiting downloads.
func (q Queue) Waiting() int { return q.downloads.queue.Waiting() }
