package main

import (
	"regexp"
	"testing"

	"github.com/tallygate/tallygate/tools/testkit"
)

// TestAttackNeighbours runs each attack for a short time. It checks that the attacker gets answers
// of the kind that each one is about, however few a busy machine gives, and that the hits of other
// accounts are measured and none is refused, which would be a fault. A commit that takes too long
// on a busy machine is no fault.
func TestAttackNeighbours(t *testing.T) {
	testkit.SkipLong(t, "a load")
	requirePrograms(t)

	const hits = `(\| \d+\.\d / \d+\.\d / \d+ ){3}\| \d+\.\d \| \d+ of [1-9]\d* \| `
	for _, engine := range []string{"sqlite", "postgres"} {
		t.Run(engine, func(t *testing.T) {
			t.Parallel()
			out := command(t, "attack", "neighbours", "--observe", "--program", tallygate(t), "--engine", engine, "--tries", "1",
				"--rate", "60", "--calm", "2s", "--duration", "2s", "--patience", "5m", "--events", "50", "--day-events", "1000",
				"--import", "2", "--directory", "2")

			for attack, got := range map[string]string{
				"reports":    `.*[1-9]\d* answered`,
				"worker":     `1000 events built in \d+ s`,
				"import":     `1 MB uploaded in \d+ s, read in \d+ s, stored in \d+ s`,
				"directory":  `1 MB uploaded in \d+ s, [A-Z_]+ after \d+ s`,
				"tools":      `.*[1-9]\d* answered`,
				"tools-link": `.*[1-9]\d* answered`,
				"sign-in":    `.*[1-9]\d* 200 (RATE_LIMITED|WRONG_CREDENTIALS)`,
				"settings":   `.*[1-9]\d* (200 TIMEOUT|503 UNAVAILABLE|answered)`,
			} {
				if !regexp.MustCompile(`(?m)^\| ` + attack + ` ` + hits + got + `.* \| [1-9]\d* \| (–|\d+) \|$`).MatchString(out) {
					t.Errorf("%s: no row with %s in\n%s", attack, got, out)
				}
			}
		})
	}
}
