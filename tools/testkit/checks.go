package testkit

import (
	"errors"
	"fmt"
	"maps"
	"reflect"
	"slices"
	"testing"
)

// NoError ends the test with err, at the line of its caller, unless err is nil.
func NoError(tb testing.TB, err error) {
	// Helper takes longer than many of the calls that a benchmark checks.
	if err != nil {
		tb.Helper()
		tb.Fatal(err)
	}
}

// Equal checks a value. The format and args name it.
func Equal[T comparable](tb testing.TB, got, want T, format string, args ...any) {
	if got != want {
		tb.Helper()
		tb.Errorf("%s: %+v, want %+v", fmt.Sprintf(format, args...), got, want)
	}
}

// EqualSlices checks a list, which may be nil for an empty one. The format and args name it.
func EqualSlices[S ~[]E, E comparable](tb testing.TB, got, want S, format string, args ...any) {
	if !slices.Equal(got, want) {
		tb.Helper()
		tb.Errorf("%s:\n%+v, want\n%+v", fmt.Sprintf(format, args...), got, want)
	}
}

// EqualMaps is EqualSlices for a map.
func EqualMaps[M ~map[K]V, K, V comparable](tb testing.TB, got, want M, format string, args ...any) {
	if !maps.Equal(got, want) {
		tb.Helper()
		tb.Errorf("%s:\n%+v, want\n%+v", fmt.Sprintf(format, args...), got, want)
	}
}

// DeepEqual is Equal for values with pointers, lists or maps.
func DeepEqual(tb testing.TB, got, want any, format string, args ...any) {
	if !reflect.DeepEqual(got, want) {
		tb.Helper()
		tb.Errorf("%s:\n%+v, want\n%+v", fmt.Sprintf(format, args...), got, want)
	}
}

// ErrorIs checks that an error wraps another one. The format and args name it.
func ErrorIs(tb testing.TB, got, want error, format string, args ...any) {
	if !errors.Is(got, want) {
		tb.Helper()
		tb.Errorf("%s: error %v, want %v", fmt.Sprintf(format, args...), got, want)
	}
}

// Require is Equal that ends the test.
func Require[T comparable](tb testing.TB, got, want T, format string, args ...any) {
	if got != want {
		tb.Helper()
		tb.Fatalf("%s: %+v, want %+v", fmt.Sprintf(format, args...), got, want)
	}
}

// Succeeds checks that a call returned no error. The format and args name the call.
func Succeeds(tb testing.TB, err error, format string, args ...any) {
	if err != nil {
		tb.Helper()
		tb.Errorf("%s: %v", fmt.Sprintf(format, args...), err)
	}
}
