package command

import (
	"context"
	"fmt"
	"io"
	"text/tabwriter"
	"time"

	"github.com/tallygate/tallygate/db/accounts"
	"github.com/tallygate/tallygate/db/model"
)

type usersCommand struct {
	Search string `long:"search" value-name:"TEXT" unquote:"false"`
	Most   int    `long:"most" default:"100" value-name:"N" description:"Number of users to print."`
	JSON   bool   `long:"json" description:"Print JSON."`
}

// userLine is a user as the command prints it.
type userLine struct {
	Email        string           `json:"email"`
	CreatedAt    time.Time        `json:"createdAt"`
	Operator     bool             `json:"operator"`
	SecondFactor bool             `json:"secondFactor"`
	Accounts     []membershipLine `json:"accounts"` // the default account first
}

// membershipLine is an account of a user as the command prints it.
type membershipLine struct {
	Name  string     `json:"name"`
	Role  model.Role `json:"role"`
	Sites int        `json:"sites,omitempty"` // how many sites a guest reaches
}

// check checks the number of users.
func (c *usersCommand) check(*session) error {
	if c.Most < 1 || c.Most > maxAccounts {
		return fmt.Errorf("--most: %d is not from 1 to %d", c.Most, maxAccounts)
	}
	return nil
}

// Run prints the users.
func (c *usersCommand) Run(ctx context.Context, s *session) error {
	d, err := s.open(ctx)
	if err != nil {
		return err
	}
	users, err := accounts.New(d).Users(ctx, c.Search, c.Most)
	if err != nil {
		return err
	}

	lines := make([]userLine, len(users))
	for i, user := range users {
		lines[i] = userLine{
			Email: user.Email, CreatedAt: user.CreatedAt.Time(), Operator: user.Operator, SecondFactor: user.SecondFactor,
		}
		for _, m := range user.Memberships {
			lines[i].Accounts = append(lines[i].Accounts, membershipLine{
				Name: m.Account.Name, Role: m.Role, Sites: len(m.SiteIDs),
			})
		}
	}
	if c.JSON {
		return writeJSON(s.out, lines)
	}

	return writeUsers(s.out, lines)
}

// writeUsers prints a line for each user, and one for each of the user's accounts.
func writeUsers(w io.Writer, lines []userLine) error {
	table := tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)
	fmt.Fprintln(table, "USER / ACCOUNT\tCREATED\tOPERATOR / ROLE\tSECOND FACTOR")
	for _, line := range lines {
		fmt.Fprintf(table, "%s\t%s\t%s\t%s\n",
			line.Email, line.CreatedAt.Format(time.DateOnly), yes(line.Operator), yes(line.SecondFactor))
		for _, account := range line.Accounts {
			role := string(account.Role)
			if account.Sites > 0 {
				role += fmt.Sprintf(" (guest, sites: %d)", account.Sites)
			}
			fmt.Fprintf(table, "  %s\t\t%s\t\n", account.Name, role)
		}
	}

	return table.Flush()
}

// yes returns "yes", or nothing.
func yes(is bool) string {
	if is {
		return "yes"
	}
	return ""
}
