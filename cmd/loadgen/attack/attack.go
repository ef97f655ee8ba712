package attack

// Command measures what others notice of an attack: another site's hits, without and with it.
type Command struct {
	Visitor VisitorCommand `cmd:"" help:"One anonymous client sends hits that are as costly as it can make them."`
	Owner   OwnerCommand   `cmd:"" help:"Change one account's settings over many connections, and measure another account's hits."`
}
