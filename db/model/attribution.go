package model

import "strings"

// attributionSeparator stands between the texts of a stored attribution. Clean removes it from all
// of them.
const attributionSeparator = "\x1f"

// attributionTexts returns the texts of an attribution in the order in which they are stored. The
// rarest texts are last, because empty texts at the end take no space.
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
