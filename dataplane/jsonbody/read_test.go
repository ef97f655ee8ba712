package jsonbody_test

import (
	"io"
	"net/http/httptest"
	"strings"
	"testing"
	"testing/iotest"

	"github.com/tallygate/tallygate/dataplane/jsonbody"
)

func TestRead(t *testing.T) {
	for size, want := range map[int]error{
		0: nil, 1: nil, jsonbody.Max: nil, jsonbody.Max + 1: jsonbody.ErrTooLarge,
		100 * jsonbody.Max: jsonbody.ErrTooLarge,
	} {
		for _, chunked := range []bool{false, true} {
			r := httptest.NewRequest("POST", "/", strings.NewReader(strings.Repeat("x", size)))

			if chunked {
				r.ContentLength = -1
			}

			b, err := jsonbody.Read(r)
			if err != want {
				t.Errorf("%d bytes, chunked %v: %v, want %v", size, chunked, err, want)
			}
			if err == nil && b.Len() != size {
				t.Errorf("%d bytes read of %d", b.Len(), size)
			}
			if err == nil {
				jsonbody.Free(b)
			}
		}
	}

	if _, err := jsonbody.Read(httptest.NewRequest("POST", "/", iotest.ErrReader(iotest.ErrTimeout))); err != jsonbody.ErrTooLarge {
		t.Errorf("a body that is cut off: %v", err)
	}
}

// TestReadStart checks that the start of a body that is too large is returned, and nothing of one
// that is cut off.
func TestReadStart(t *testing.T) {
	for size, want := range map[int]int{0: 0, 1: 1, jsonbody.Max: jsonbody.Max, jsonbody.Max + 1: jsonbody.Max, 100 * jsonbody.Max: jsonbody.Max} {
		for _, chunked := range []bool{false, true} {
			r := httptest.NewRequest("POST", "/", strings.NewReader(strings.Repeat("x", size)))

			if chunked {
				r.ContentLength = -1
			}

			b, err := jsonbody.ReadStart(r)
			if b.Len() != want || (err == jsonbody.ErrTooLarge) != (size > jsonbody.Max) {
				t.Errorf("%d bytes, chunked %v: %d bytes, %v; want %d", size, chunked, b.Len(), err, want)
			}

			jsonbody.Free(b)
		}
	}

	broken := io.MultiReader(strings.NewReader("{"), iotest.ErrReader(iotest.ErrTimeout))
	b, err := jsonbody.ReadStart(httptest.NewRequest("POST", "/", broken))
	if b.Len() != 0 || err != jsonbody.ErrTooLarge {
		t.Errorf("a body that is cut off: %d bytes, %v", b.Len(), err)
	}

	jsonbody.Free(b)
}
