package reports

// Observe calls what for each query of a day's rows, just before it is sent. s must not be in use.
func Observe(s *Store, what func(query string)) { s.observe = what }
