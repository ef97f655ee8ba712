package scenario

import (
	"context"
	"encoding/binary"
	"fmt"
	"math/rand/v2"
	"strings"
	"time"

	"github.com/tallygate/tallygate/db"
	"github.com/tallygate/tallygate/db/model"
	"github.com/tallygate/tallygate/db/reports"
	"github.com/tallygate/tallygate/db/retention"
	"github.com/tallygate/tallygate/tools/loadgen/bulk"
	"github.com/tallygate/tallygate/tools/loadgen/traffic"
)

// The rows, files and filters that attackers send.

// eventName is the event that the attacker registers.
const eventName = "signup"

const (
	dayVisitors = 500   // of the day that the worker builds
	dayChunk    = 5_000 // events of one transaction
)

// storeDay stores events of yesterday, with as many properties as fit, and makes that day due.
func storeDay(ctx context.Context, d *db.DB, nodeID string, events int) (model.Day, error) {
	id, err := siteOf(ctx, d, nodeID)
	if err != nil {
		return 0, err
	}

	// A day is built some minutes after its end, so in the first hour of a day it is an earlier
	// one.
	now := model.At(time.Now())
	day := now.Add(-time.Hour).Day() - 1
	random := rand.New(rand.NewPCG(2, 33))
	err = bulk.Fill(ctx, d, func() error {
		if err := retention.New(d).EnsurePartitions(ctx, day.Start()); err != nil {
			return err
		}

		f := &filler{sites: []int64{id}, from: day.Start(), step: time.Hour / dayVisitors, random: random, pick: traffic.PickSite(random, 1)}
		visits := f.next(dayVisitors * pageviewsPerVisit)
		if err := bulk.Load(ctx, d, visits); err != nil {
			return err
		}

		for first := 0; first < events; first += dayChunk {
			var rows bulk.Rows
			for i := first; i < min(first+dayChunk, events); i++ {
				at := day.Start().Add(time.Hour + time.Duration(i)*22*time.Hour/time.Duration(events))
				rows.Events = append(rows.Events, model.Event{SiteID: model.SiteID(id), At: at, ID: random.Int64(),
					Visitor: visits.Visits[i%dayVisitors].Visitor, N: 1, Name: eventName, Path: "/",
					Properties: string(appendProperties(nil, random))})
			}
			if err := bulk.Load(ctx, d, rows); err != nil {
				return err
			}
		}
		return nil
	})
	if err != nil {
		return 0, err
	}

	return day, reports.New(d).PlanSite(ctx, model.SiteID(id), day, now)
}

const (
	propertyCount = 273 // properties that fit into the 4,096 bytes of an event
	valueBytes    = 7
)

// propertyName returns a name of two letters.
func propertyName(i int) string { return string([]byte{'a' + byte(i/26), 'a' + byte(i%26)}) }

// appendProperties appends as many properties as an event may have, with random values.
func appendProperties(b []byte, random *rand.Rand) []byte {
	const letters = "abcdefghijklmnopqrstuvwxyz234567"
	b = append(b, '{')
	for i := range propertyCount {
		if i > 0 {
			b = append(b, ',')
		}

		b = append(b, '"')
		b = append(b, propertyName(i)...)
		b = append(b, `":"`...)
		value := random.Uint64()
		for range valueBytes {
			b = append(b, letters[value%uint64(len(letters))])
			value /= uint64(len(letters))
		}
		b = append(b, '"')
	}
	return append(b, '}')
}

const (
	pathViews  = 100   // page views of the site with long paths
	pathLength = 2_000 // characters
)

// patternSize is how long the patterns of a filter are together.
type patternSize struct {
	bytes     int
	asterisks int // 0: every other character
}

// patternSizes are tried in this order, until the service accepts one.
var patternSizes = []patternSize{{20_000, 0}, {2_000, 0}, {2_000, 50}, {1_000, 50}, {1_000, 20}, {500, 10}, {100, 2}}

// String describes the patterns.
func (s patternSize) String() string {
	if s.asterisks == 0 {
		return fmt.Sprintf("%d bytes of patterns", s.bytes)
	}
	return fmt.Sprintf("%d bytes of patterns with %d asterisks", s.bytes, s.asterisks)
}

// filter returns a filter with patterns that no path matches but at their ends.
func (s patternSize) filter() string {
	var values []string
	for rest := s.bytes; rest > 0; rest -= pathLength {
		values = append(values, fmt.Sprintf("%q", s.pattern(min(rest, pathLength))))
	}
	return fmt.Sprintf("{dimension: PAGE, operator: MATCHES, values: [%s]}", strings.Join(values, ", "))
}

// pattern returns one pattern of a length.
func (s patternSize) pattern(length int) string {
	every := 2
	if s.asterisks > 0 {
		every = max(length/s.asterisks, 2)
	}

	p := []byte("/")
	for asterisks := 0; len(p) < length-1; {
		if (s.asterisks == 0 || asterisks < s.asterisks) && len(p)%every == 1 {
			p = append(p, '*')
			asterisks++
		} else {
			p = append(p, 'a')
		}
	}
	return string(append(p, 'b'))
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
