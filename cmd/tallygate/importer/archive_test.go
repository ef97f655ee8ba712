package importer_test

import (
	"archive/zip"
	"bytes"
	"encoding/binary"
	"fmt"
	"io"
	"math"
	"os"
	"os/exec"
	"runtime/metrics"
	"slices"
	"strings"
	"testing"

	"github.com/tallygate/tallygate/cmd/tallygate/importer"
	"github.com/tallygate/tallygate/db/model"
	"github.com/tallygate/tallygate/tools/loadgen/process"
	"github.com/tallygate/tallygate/tools/testkit"
)

// exportName is the file in the archives of these tests.
const exportName = "imported_visitors.csv"

// archived returns an archive of one file of an export, with a comment.
func archived(t testing.TB, comment string) []byte {
	t.Helper()
	var b bytes.Buffer
	w := zip.NewWriter(&b)
	entry, err := w.Create(exportName)
	if err == nil {
		_, err = io.WriteString(entry, "date,visitors,pageviews,bounces,visits\n2026-02-01,1,2,0,1\n")
	}
	if err == nil {
		err = w.SetComment(comment)
	}
	if err == nil {
		err = w.Close()
	}
	testkit.NoError(t, err)
	return b.Bytes()
}

// trailerSize is the size of a trailer without a comment.
const trailerSize = 22

// trailer returns a trailer with numbers that may be wrong.
func trailer(files uint16, size, offset uint32, comment int) []byte {
	b := append([]byte("PK\x05\x06"), make([]byte, 4)...)
	b = binary.LittleEndian.AppendUint16(b, files)
	b = binary.LittleEndian.AppendUint16(b, files)
	b = binary.LittleEndian.AppendUint32(b, size)
	b = binary.LittleEndian.AppendUint32(b, offset)
	return binary.LittleEndian.AppendUint16(b, uint16(comment))
}

// trailer64 returns the trailer and the locator of ZIP64, and a trailer that points to them.
func trailer64(files, size, offset, at uint64) []byte {
	b := append([]byte("PK\x06\x06"), make([]byte, 20)...)
	for _, n := range []uint64{files, files, size, offset} {
		b = binary.LittleEndian.AppendUint64(b, n)
	}
	b = append(b, "PK\x06\x07\x00\x00\x00\x00"...)
	b = binary.LittleEndian.AppendUint64(b, at)
	b = binary.LittleEndian.AppendUint32(b, 1)
	return append(b, trailer(math.MaxUint16, math.MaxUint32, math.MaxUint32, 0)...)
}

// listed returns a directory that lists the file of an archive n times.
func listed(archive []byte, n int) []byte {
	directory := archive[bytes.Index(archive, []byte("PK\x01\x02")) : len(archive)-trailerSize]
	return bytes.Repeat(directory, n)
}

// hostile are archives with trailers that a program for archives might not write, with the error
// that each of them must have; empty: it is read. Some of them are honest.
func hostile(t testing.TB) map[string]struct {
	archive []byte
	want    string
} {
	const (
		damaged = "zip: not a valid zip file"
		many    = "more than 1000 files"
		long    = "the list of the archive's files has more than 1048576 bytes"
	)
	whole := archived(t, "")
	start := uint32(bytes.Index(whole, []byte("PK\x01\x02")))
	body, size := whole[:start], uint32(len(listed(whole, 1)))
	end := uint64(start + size)
	join := func(parts ...[]byte) []byte { return slices.Concat(parts...) }
	with := func(n int, end []byte) []byte { return join(body, listed(whole, n), end) }

	type test = struct {
		archive []byte
		want    string
	}
	return map[string]test{
		"whole":              {whole, ""},
		"comment":            {archived(t, strings.Repeat("c", math.MaxUint16)), ""},
		"data before":        {join([]byte("#!/bin/sh\nexec unzip \"$0\"\n"), whole), ""},
		"much data before":   {join(bytes.Repeat([]byte("PK\x03\x04"), 1<<19), whole), ""},
		"mark of a division": {join([]byte("PK00"), whole), ""},
		"ZIP64":              {with(1, trailer64(1, uint64(size), uint64(start), end)), ""},
		"empty":              {trailer(0, 0, 0, 0), "nothing to import"},

		"cut off":                  {whole[:len(whole)-1], damaged},
		"no directory":             {join(body, trailer(1, size, start, 0)), damaged},
		"few files of many":        {with(900, trailer(1, 900*size, start, 0)), "unexpected EOF"},
		"many files":               {with(1_001, trailer(1_001, 1_001*size, start, 0)), many},
		"many files and no list":   {join(body, trailer(1_001, 0, start, 0)), many},
		"files modulo 65,536":      {with(65_537, trailer(1, 65_537*size, start, 0)), long},
		"and a short list":         {with(65_537, trailer(1, size, start, 0)), long},
		"and a short list at last": {with(65_537, trailer(1, 65_536*size, start+size, 0)), long},
		"long list":                {with(1, trailer(1, math.MaxUint32, start, 0)), long},
		"size of ones":             {with(1, trailer(1, math.MaxUint16, start, 0)), damaged},

		"ZIP64 without a trailer":  {with(1, trailer(math.MaxUint16, math.MaxUint32, math.MaxUint32, 0)), many},
		"ZIP64 many files":         {with(1, trailer64(math.MaxUint64, uint64(size), uint64(start), end)), many},
		"ZIP64 files as memory":    {join(body, make([]byte, 1<<20), trailer64(30_000, 0, uint64(start), end+1<<20)), many},
		"ZIP64 files modulo 2^16":  {with(1, trailer64(1<<16+1, uint64(size), uint64(start), end)), many},
		"ZIP64 long list":          {with(1, trailer64(1, math.MaxUint64, uint64(start), end)), long},
		"ZIP64 list elsewhere":     {with(1, trailer64(1, uint64(size), math.MaxUint64, end)), damaged},
		"ZIP64 list beyond 2^63":   {with(1, trailer64(1, uint64(size), math.MaxInt64, end)), damaged},
		"ZIP64 trailer elsewhere":  {with(1, trailer64(1, uint64(size), uint64(start), math.MaxUint64)), many},
		"ZIP64 trailer at the end": {with(1, trailer64(1, uint64(size), uint64(start), end+98)), many},
		"ZIP64 of 70,000 files":    {with(70_000, trailer64(1, uint64(size), uint64(start), end+69_999*uint64(size))), long},

		"signature at the end": {archived(t, "about PK\x05\x06"), ""},

		// Of two trailers the last one counts.
		"signature in the comment": {archived(t, "about PK\x05\x06 and more, at length"), many},
		"trailer in the comment":   {archived(t, string(trailer(1_001, 0, 0, 0))), many},
		"small trailer in the comment": {
			with(65_537, join(trailer(1, 65_537*size, start, trailerSize), trailer(1, 65_537*size+trailerSize, start, 0))), long,
		},
	}
}

// TestHostileArchives checks that archives with wrong trailers are refused, that archives of honest
// programs are read, and that both takes little memory.
func TestHostileArchives(t *testing.T) {
	for name, test := range hostile(t) {
		t.Run(name, func(t *testing.T) {
			before := allocated()
			read, err := importer.ReadInputs(t.Context(), model.ImportPlausible, []importer.Input{
				{Name: "export.zip", Data: bytes.NewReader(test.archive), Size: int64(len(test.archive))},
			}, everyDay)
			if test.want == "" && (err != nil || read.Totals.Visitors != 1) || test.want != "" && (err == nil || !strings.Contains(err.Error(), test.want)) {
				t.Errorf("error %v, want %q", err, test.want)
			}
			if bytes := allocated() - before; bytes > 12<<20 {
				t.Errorf("%d KB were allocated", bytes>>10)
			}
		})
	}
}

// allocated returns how many bytes the process has allocated so far.
func allocated() uint64 {
	sample := []metrics.Sample{{Name: "/gc/heap/allocs:bytes"}}
	metrics.Read(sample)
	return sample[0].Value.Uint64()
}

// FuzzArchive checks that an archive is opened as archive/zip opens it, or refused because of its
// list alone, and that either takes little memory.
func FuzzArchive(f *testing.F) {
	for _, test := range hostile(f) {
		if len(test.archive) < 1<<16 {
			f.Add(test.archive)
		}
	}
	f.Fuzz(func(t *testing.T, content []byte) {
		before := allocated()
		got, _, err := importer.NewArchive(importer.Input{Data: bytes.NewReader(content), Size: int64(len(content))})
		if bytes := allocated() - before; bytes > 12<<20 {
			t.Errorf("%d KB were allocated", bytes>>10)
		}

		want, wantErr := zip.NewReader(bytes.NewReader(content), int64(len(content)))
		if err != nil {
			if wantErr == nil && !strings.Contains(err.Error(), "more than 1") {
				t.Errorf("%d files are refused: %v", len(want.File), err)
			}
			return
		}
		if wantErr != nil || len(got.File) != len(want.File) {
			t.Fatalf("opened %d files, archive/zip: %v", len(got.File), wantErr)
		}
		for i, entry := range got.File {
			testkit.Equal(t, entry.Name, want.File[i].Name, "file %d", i)
		}
	})
}

// emptyEntries is an archive of about a size that lists nothing but empty files without a name.
// Modulo 65,536 it has one.
type emptyEntries struct{ size int64 }

const emptyEntry = 46

func (a emptyEntries) count() int64 { return (a.size-trailerSize)/emptyEntry&^math.MaxUint16 + 1 }

func (a emptyEntries) ReadAt(to []byte, at int64) (n int, err error) {
	entry := append([]byte("PK\x01\x02"), make([]byte, emptyEntry-4)...)
	end := trailer(uint16(a.count()), uint32(a.count()*emptyEntry), 0, 0)
	for n < len(to) {
		switch place := at + int64(n); {
		case place >= a.count()*emptyEntry+trailerSize:
			return n, io.EOF
		case place >= a.count()*emptyEntry:
			n += copy(to[n:], end[place-a.count()*emptyEntry:])
		default:
			n += copy(to[n:], entry[place%emptyEntry:])
		}
	}
	return n, nil
}

// TestPeakOfArchive measures, in a process of its own, the most memory that the largest upload of
// empty entries takes.
func TestPeakOfArchive(t *testing.T) {
	const variable = "TALLYGATE_TEST_ARCHIVE"
	if os.Getenv(variable) == "" {
		command := exec.CommandContext(t.Context(), os.Args[0], "-test.run=^"+t.Name()+"$", "-test.count=1", "-test.v")
		command.Env = append(os.Environ(), variable+"=1")
		out, err := command.CombinedOutput()
		if err != nil {
			t.Fatalf("%v: %s", err, out)
		}
		t.Logf("%s", out)
		return
	}

	before := process.Peak(os.Getpid())
	if before == 0 {
		t.Skip("the peak is not known here")
	}
	for _, most := range []int64{128 << 20, model.MaxUpload} {
		a := emptyEntries{most}
		size := a.count()*emptyEntry + trailerSize
		_, err := importer.ReadInputs(t.Context(), model.ImportPlausible, []importer.Input{{Name: "export.zip", Data: a, Size: size}}, everyDay)
		if err == nil {
			t.Errorf("%d entries were read", a.count())
		}
		grown := process.Peak(os.Getpid()) - before
		fmt.Printf("%d entries in %d bytes: peak %d KB + %d KB, error %v\n", a.count(), size, before>>10, grown>>10, err)
		if grown > 64<<20 {
			t.Errorf("%d entries take %d MB", a.count(), grown>>20)
		}
	}
}
