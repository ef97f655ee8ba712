// Package environment holds the rule about empty environment variables that all commands share.
package environment

import (
	"os"

	"github.com/alecthomas/kong"
)

// IgnoreEmpty makes kong treat an empty environment variable as unset, for every setting of every
// command. Compose and systemd files set empty variables for what is not configured. It removes
// these variables from the process's environment, because kong itself distinguishes the two.
func IgnoreEmpty() kong.Option {
	return kong.PostBuild(func(k *kong.Kong) error {
		return kong.Visit(k.Model, func(node kong.Visitable, next kong.Next) error {
			if value, ok := node.(*kong.Value); ok {
				if err := unsetEmpty(value.Tag.Envs); err != nil {
					return next(err)
				}
			}
			return next(nil)
		})
	})
}

func unsetEmpty(names []string) error {
	for _, name := range names {
		if value, set := os.LookupEnv(name); !set || value != "" {
			continue
		}
		if err := os.Unsetenv(name); err != nil {
			return err
		}
	}

	return nil
}
