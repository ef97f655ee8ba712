// Package attack measures what other sites notice of an attack. Its commands start private servers,
// attack one site and measure the hits and reports of another.
package attack

// Command groups the attacks.
type Command struct {
	Visitor VisitorCommand `cmd:"" help:"Send expensive hits from one anonymous client, and measure another site's hits."`
	Owner   OwnerCommand   `cmd:"" help:"Change one account's settings over many connections, and measure another account's hits."`
	Report  ReportCommand  `cmd:"" help:"Ask for the most expensive reports of a new account, and measure the process and another account."`
}
