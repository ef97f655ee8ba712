package config

import (
	"io"
	"log/slog"
)

// FormatJSON is the log format for machines.
const FormatJSON = "json"

// Logger returns a logger to w with the configured level and format.
func (c *Config) Logger(w io.Writer) *slog.Logger {
	options := &slog.HandlerOptions{Level: slog.Level(c.LogLevel)}
	if c.LogFormat == FormatJSON {
		return slog.New(slog.NewJSONHandler(w, options))
	}
	return slog.New(slog.NewTextHandler(w, options))
}

// LogLevel is the lowest level of log lines.
type LogLevel slog.Level

// UnmarshalFlag parses a level.
func (l *LogLevel) UnmarshalFlag(text string) error {
	return (*slog.Level)(l).UnmarshalText([]byte(text))
}
