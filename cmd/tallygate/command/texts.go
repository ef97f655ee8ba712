package command

import (
	"github.com/jessevdk/go-flags"

	"github.com/tallygate/tallygate/cmd/commandline"
	"github.com/tallygate/tallygate/cmd/tallygate/config"
)

// texts are the help of the commands, and the longer ones of their flags and arguments.
var texts = map[string]string{
	"serve":   "Run the service (the default command).",
	"demo":    "Run the service with a demo account, site and page.",
	"migrate": "Migrate the database's schema and exit.",
	"doctor": "Check the configuration against the machine, the database and the servers that it names, and " +
		"print what to change. Changes nothing. The exit status is 0 without findings, 3 with warnings " +
		"and 1 with errors.",
	"health": "Exit with status 0 if the service with these settings runs on this machine and is ready, for " +
		"health checks of containers.",
	"version": "Print the version and the commit of the program, and the versions of Go, SQLite and the " +
		"supported PostgreSQL servers.",
	"admin": "Administer accounts, passwords and plans on the machine itself.",
	"admin create-account": "Create an account with its owner, regardless of --signups, and print the link to " +
		"choose a password. The first account is the operator's.",
	"admin reset-password": "Print a link to choose a new password, for instance where no mail is sent. " +
		"Earlier links expire, and the user is notified by mail.",
	"admin reset-second-factor": "Remove all second factors of a user who has lost them, and end the user's " +
		"sessions. The user is notified by mail.",
	"admin invite": "Invite a person to an account and print the link to join, for instance where no mail is " +
		"sent.",
	"admin test-mail":    "Queue a test mail for the running service to send.",
	"admin set-operator": "Grant or revoke the operator role of a user.",
	"admin set-plan":     "Set the plan of a site. Running processes apply it within a second.",
	"admin set-site-limit": "Set the largest number of sites of an account on the plan of new sites (default: " +
		"50).",
	"admin backup": "Copy the embedded SQLite database into a new file, even while the service runs, and verify the " +
		"copy. It has no daily salts.",
	"admin backup --keep": "Name the copy by its time in the folder, and then remove the oldest copies until N " +
		"remain. Other files stay.",
	"admin backup --every": "Run until stopped, and make a copy this long after the newest one in the folder, for " +
		"instance every 24h. After a failure it tries again within an hour.",
	"admin record-backup": "Record that a backup was made just now by another program, such as pg_dump, for the " +
		"metrics and the alert on old backups. \"admin backup\" records itself.",
	"admin verify-backup": "Read a backup of SQLite, compare its tables, indexes and references, and print how " +
		"much it holds. Needs no settings and changes nothing.",
	"admin copy": "Copy the whole installation into an empty database, for instance from SQLite to PostgreSQL, while no " +
		"process uses either. After an interruption, empty the target and run it again. See docs/operator/move.md.",
	"admin restore-month": "Restore a month that retention removed from PostgreSQL within the last 24 hours; " +
		"without a month, list these months.",
	"admin purge-site": "Delete for good a site that an owner has deleted, instead of waiting for the 7 days " +
		"in which it can be restored.",
	"admin cells": "List the cells, which divide the sites' hits and the accounts' captchas among schemas of " +
		"PostgreSQL, add one, or choose which take new sites and accounts.",
	"admin move-site": "Move a site with its hits to another cell while the service runs. Its hits wait for " +
		"some seconds.",
	"admin move-account": "Move the captcha of an account, with its usage and its used challenges and tokens, " +
		"to another cell while the service runs. Its challenges and tokens wait for a second, or some " +
		"seconds if there are a million.",
	"admin verify-domain": "Confirm that the domain of an account's OpenID Connect provider belongs to the account, in place of its " +
		"DNS record.",
	"admin suspend": "Suspend an account: its sites and sitekeys refuse calls, and its users can change " +
		"nothing. Running processes follow within a second.",
	"admin resume": "End the suspension of an account.",
	"admin check-reports": "Recount the reports of finished days from the stored visits, page views and " +
		"events, and print the figures that differ.",
	"admin import": "Make the reports of another service part of a site's reports: days before the site's " +
		"first own day, from an export of Plausible, Umami, GoatCounter or Google Analytics 4. See " +
		"docs/owner/imports.md.",
	"admin imports":          "List the imports of a site.",
	"admin undo-import":      "Delete an import of a site from its reports.",
	"admin set-captcha-plan": "Set the captcha plan of an account, effective from its next verification.",
	"admin accounts": "List the installation's accounts with their plans, the usage of this month, their users and " +
		"their sites with their keys, newest first.",
	"admin installation": "Print the version, the settings without secrets, whether mails are sent, and the " +
		"state of database, work and clock.",
	"admin rotate-secret": "Replace the application key: seal with the new one what is stored with the " +
		"previous one. See docs/operator/incidents.md, \"Change the application key\".",
	"admin apply": "Give an account and its sites the settings in a file, all or none. Settings that the file " +
		"does not name stay unchanged; a list in the file replaces the stored one. Running processes " +
		"follow within a second.",
	"admin export-config": "Print the settings of an account, its sites and sitekeys as a file for \"admin " +
		"apply\". Secrets are not in it.",
	"admin cells list":  "Print each cell with its schema, node, sites, accounts and size.",
	"admin cells add":   "Create a cell. It takes new sites after ten seconds, when all processes know it.",
	"admin cells open":  "Let a cell take new sites and accounts.",
	"admin cells close": "Let a cell take no new sites and accounts. Those that it has stay.",
	"admin copy --to": "The empty database: postgres://user@host:port/name, with the password in PGPASSWORD, or the " +
		"path of a new SQLite file.",
	"admin invite --role": "Role in the account: OWNER, MEMBER or VIEWER.",
	"admin set-plan --monthly-pageviews": "Page views and events a month of an ENTERPRISE plan, from 1 to " +
		"2^53. Default: no limit.",
	"admin suspend --reason": "The reason, which the account's users see: 1 to 500 characters.",
	"admin import <file>": "The files of the export: CSV, also compressed with gzip, or a zip archive of them; for " +
		"goatcounter-api the address of the GoatCounter site.",
	"admin import --from": "The service: plausible, umami, goatcounter-api (the sums that GoatCounter keeps " +
		"by default), ga4 or matomo.",
	"admin import --token-file": "File with a token of the service's API, for goatcounter-api.",
	"admin import --since":      "The first day to import, YYYY-MM-DD. Default: the first one of the export.",
	"admin users":               "List the installation's users with their accounts and roles, newest first.",
	"admin users --search":      "A part of the e-mail address.",
	"admin accounts --search": "A part of the account's name, of an owner's e-mail address or of a site's " +
		"domain.",
	"serve --again": "Serve a database again that \"admin copy\" has copied: the copy must not be served any more. " +
		"Later starts need no flag.",
	"demo --demo-addr": "Address of the demo website. Port 0 picks a free one.",
	"migrate --check": "Print how the schema compares with this program, and fail if a migration is pending " +
		"or the program is too old. Changes nothing.",
}

// addTexts gives the commands, flags and arguments their help.
func addTexts(parser *commandline.Parser) {
	for _, group := range parser.Groups() {
		for _, setting := range group.Options() {
			if setting.Description == "" {
				setting.Description = config.Texts[setting.LongName].Help
			}
		}
	}
	for _, command := range parser.Commands() {
		addCommandTexts(command.Name, command)
	}
}

// addCommandTexts gives a command at a path, its flags, its arguments and the commands below it
// their help, unless they have one.
func addCommandTexts(path string, command *flags.Command) {
	command.LongDescription = texts[path]
	for _, flag := range command.Options() {
		if flag.Description == "" {
			flag.Description = texts[path+" --"+flag.LongName]
		}
	}
	for _, argument := range command.Args() {
		if argument.Description == "" {
			argument.Description = texts[path+" "+argument.Name]
		}
	}
	for _, child := range command.Commands() {
		addCommandTexts(path+" "+child.Name, child)
	}
}
