package traffic

import (
	"bytes"
	"fmt"

	"github.com/tallygate/tallygate/cmd/loadgen/load"
)

// Visitors is the source of one connection: it sends the mix and notes what is acknowledged.
type Visitors struct {
	Mixer     *mixer
	journal   *Journal // nil: answers do not matter
	surprises *load.Unexpected
	current   hit
}

func (v *Visitors) Next() []byte {
	v.current = v.Mixer.hit()
	return v.Mixer.next(&v.current)
}

func (v *Visitors) Done(a load.Answer, err error) {
	h := &v.current
	switch {
	case v.journal == nil || err != nil || a.Status == 503 || a.Status == 429:
		// nothing was promised
		return
	case a.Status != h.want || h.kind == purchase && !accepted(a):
		v.surprises.Add(fmt.Sprintf("%d %s instead of %d", a.Status, load.CodeOf(a.Body), h.want))
	case h.kind != Bot && h.kind != Bad:
		v.journal.note(Entry{Mark: h.mark, Site: uint16(h.site), Kind: h.kind})
	}
}

// accepted reports whether a call that succeeded was stored, as far as the answer tells.
func accepted(a load.Answer) bool {
	return a.Status == 204 || bytes.Contains(a.Body, []byte(`"recorded"`))
}
