package reports_test

import (
	"bytes"
	"errors"
	"reflect"
	"testing"

	"github.com/tallygate/tallygate/db/reports"
	"github.com/tallygate/tallygate/db/reports/segment"
	"github.com/tallygate/tallygate/tools/oracle"
	"github.com/tallygate/tallygate/tools/testkit"
)

// FuzzUnpack changes the stored form of a segment, a plain and a compressed one. Its checksums must
// notice.
func FuzzUnpack(f *testing.F) {
	g, err := segment.Build(oracle.NewBusy(1).Day(20_000, 300))
	testkit.NoError(f, err)
	var forms [2][]byte
	for i, below := range []int{0, 1 << 20} {
		if forms[i], err = reports.PackColumns(g, below); err != nil {
			f.Fatal(err)
		}
	}
	for form := range uint8(len(forms)) {
		for at := range uint16(100) {
			f.Add(form, at*8, byte(0x55))
		}
		f.Add(form, uint16(1000), byte(0)) // cuts
	}

	f.Fuzz(func(t *testing.T, form uint8, at uint16, change byte) {
		packed := bytes.Clone(forms[int(form)%len(forms)])
		place := int(at) % len(packed)
		if packed[place] ^= change; change == 0 {
			packed = packed[:place]
		}

		got, err := reports.Unpack(packed)
		switch {
		case err == nil && !reflect.DeepEqual(got.Texts, g.Texts):
			t.Fatal("a damaged segment was read")
		case err != nil && !errors.Is(err, segment.ErrDamaged) && !errors.Is(err, segment.ErrVersion):
			t.Fatalf("error %v, want ErrDamaged or ErrVersion", err)
		}
	})
}
