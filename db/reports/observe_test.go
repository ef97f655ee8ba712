package reports

// Counting is what Observe gets before a report is counted.
const Counting = counting

// Observe calls what for each query of a day's rows, just before it is sent, and with Counting for
// each count of a report. s must not be in use.
func Observe(s *Store, what func(string)) { s.observe = what }
