// Command tallygate is cookieless web analytics and a proof-of-work captcha for a site owner's own
// sites, in one program. Package command is its command line; the other folders here hold what the
// commands share, and test holds the end-to-end tests.
package main

import "github.com/tallygate/tallygate/cmd/tallygate/command"

func main() { command.Main() }
