package resolver

import (
	"math"

	"github.com/tallygate/tallygate/db/model"
)

// orNull turns "not found" into null: an unknown id and another account's id get the same response.
func orNull[T any](object *T, err error) (*T, error) {
	if model.KindOf(err) == model.NotFound {
		return nil, nil
	}
	return object, err
}

// notZero returns nil for the zero value, which stands for none.
func notZero[T comparable](value T) *T {
	if value == *new(T) {
		return nil
	}
	return &value
}

// orBlank returns the empty string for nil.
func orBlank(s *string) string {
	if s == nil {
		return ""
	}
	return *s
}

// orEmpty returns an empty list for nil.
func orEmpty[T any](list []T) []T {
	if list == nil {
		return []T{}
	}
	return list
}

// percent returns used as a percentage of a quota, rounded down to one decimal: 100 means that the
// quota is used up. A quota of 0 is always used up.
func percent(used, quota int64) float64 {
	if quota <= 0 {
		return 100
	}
	return math.Floor(float64(used)/float64(quota)*1000) / 10
}
