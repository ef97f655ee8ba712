package model

import (
	"database/sql/driver"
	"fmt"
	"slices"
	"strings"
)

// Channel is one of the contract's thirteen values of how a visitor came to the site; see package
// channel. Databases store its number.
type Channel string

// channels holds the values by their numbers. Stored numbers never change: new values come last.
var channels = []Channel{
	"", "direct", "organic search", "paid search", "organic social", "paid social", "organic video", "paid video",
	"email", "referral", "display", "affiliates", "other paid", "unassigned",
}

// Number returns the number under which the channel is stored. An unknown channel has that of
// "unassigned".
func (c Channel) Number() int16 {
	if i := slices.Index(channels, c); i >= 0 {
		return int16(i)
	}
	return int16(len(channels) - 1)
}

// ChannelOf returns the channel of a stored number, or "unassigned" for an unknown one.
func ChannelOf(number int16) Channel {
	if number < 0 || int(number) >= len(channels) {
		return channels[len(channels)-1]
	}
	return channels[number]
}

// Value implements driver.Valuer.
func (c Channel) Value() (driver.Value, error) { return int64(c.Number()), nil }

// Scan implements sql.Scanner. NULL is no channel.
func (c *Channel) Scan(stored any) error {
	if stored == nil {
		*c = ""
		return nil
	}

	number, ok := stored.(int64)
	if !ok {
		return fmt.Errorf("a channel is stored as %T", stored)
	}
	*c = ChannelOf(int16(number))
	return nil
}

// attributionSeparator stands between the texts of a stored attribution. Clean removes it from all
// of them.
const attributionSeparator = "\x1f"

// attributionTexts returns the texts of an attribution in the order in which they are stored. The
// last ones are the rarest, because empty texts at the end take no space.
func attributionTexts(referrer *string, c *Campaign) [11]*string {
	return [...]*string{referrer, &c.Source, &c.Medium, &c.Name, &c.Gclid, &c.Fbclid, &c.Msclkid, &c.Content, &c.Term,
		&c.Gbraid, &c.Wbraid}
}

// PackAttribution returns the referrer and the campaign of a visit as the one text that databases
// store, empty without any.
func PackAttribution(referrer string, c *Campaign) string {
	if referrer == "" && *c == (Campaign{}) {
		return ""
	}

	var packed strings.Builder
	empty := 0
	for i, text := range attributionTexts(&referrer, c) {
		if i > 0 {
			empty++
		}
		if *text == "" {
			continue
		}

		for ; empty > 0; empty-- {
			packed.WriteString(attributionSeparator)
		}
		packed.WriteString(strings.ReplaceAll(*text, attributionSeparator, ""))
	}

	return packed.String()
}

// UnpackAttribution returns the referrer and the campaign of a stored attribution.
func UnpackAttribution(packed string) (referrer string, c Campaign) {
	for _, text := range attributionTexts(&referrer, &c) {
		if packed == "" {
			break
		}
		*text, packed, _ = strings.Cut(packed, attributionSeparator)
	}
	return referrer, c
}
