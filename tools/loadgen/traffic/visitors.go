package traffic

import (
	"bytes"
	"fmt"

	"github.com/tallygate/tallygate/tools/loadgen/load"
)

// Visitors is the source of one connection: it sends the mix and records acknowledged hits.
type Visitors struct {
	Mixer      *Mixer
	journal    *Journal // nil: ignore responses
	unexpected *load.Counter
	current    hit
}

// Next returns the next hit's request.
func (v *Visitors) Next() []byte {
	v.current = v.Mixer.hit()
	return v.Mixer.next(&v.current)
}

// Done records an acknowledged hit in the journal, and counts an unexpected response.
func (v *Visitors) Done(a load.Answer, err error) {
	h := &v.current
	switch {
	case v.journal == nil || err != nil || a.Status == 503 || a.Status == 429:
		// The hit was not acknowledged.
		return
	case a.Status != h.want || h.kind == purchase && !accepted(a):
		v.unexpected.Add(fmt.Sprintf("%d %s instead of %d", a.Status, load.CodeOf(a.Body), h.want))
	case h.kind != Bot && h.kind != Bad:
		v.journal.note(Entry{Mark: h.mark, Site: uint16(h.site), Kind: h.kind})
	}
}

// accepted reports whether a successful response says that the call was stored.
func accepted(a load.Answer) bool {
	return a.Status == 204 || bytes.Contains(a.Body, []byte(`"recorded"`))
}
