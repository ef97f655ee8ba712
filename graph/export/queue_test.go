package export

import (
	"net/http"
	"time"
)

// Queue is a download handler whose queue tests see.
type Queue struct {
	http.Handler
	downloads *downloads
}

// NewQueue is Handler with another longest wait.
func NewQueue(options Options, wait time.Duration) Queue {
	o := newDownloads(options)
	o.queue.Patience = wait
	return Queue{o, o}
}

// Waiting returns how many downloads wait.
func (q Queue) Waiting() int { return q.downloads.queue.Waiting() }
