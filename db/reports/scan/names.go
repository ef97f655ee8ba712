package scan

import (
	"github.com/tallygate/tallygate/db/model"
	"github.com/tallygate/tallygate/db/reports/segment"
)

// sourceNames numbers the names of sources. A source is named once in a report, however many
// segments have it.
type sourceNames struct {
	*dictionary          // of the names; current has their numbers by the index of the source
	of          []uint32 // by the number of a source: the number of its name
}

func newSourceNames(budget *Budget) *sourceNames {
	return &sourceNames{dictionary: newDictionary(budget)}
}

// begin numbers the names of a segment's sources, which must have been numbered.
func (n *sourceNames) begin(sources *dictionary) {
	before := len(n.of)
	for _, source := range sources.texts[before:] {
		n.of = append(n.of, n.add(model.NameOfSource(shown(source))))
	}
	n.budget.Take((len(n.of) - before) * nameBytes)

	n.hasOther = sources.hasOther
	n.current = n.current[:0]
	for _, number := range sources.current {
		name := uint32(unnumbered)
		if number != unnumbered {
			name = n.of[number]
		}
		n.current = append(n.current, name)
	}
}

// nameBytes is the memory of the number of a source's name, with the room that a list grows by.
const nameBytes = 8

// valuesOf returns the dictionary of a dimension that has texts, or nil if no segment was counted.
func (s *Scanner) valuesOf(by Dimension) *dictionary {
	field, _ := fieldOf(by)
	if by == SourceName && s.texts[segment.Source] != nil {
		return s.names.dictionary
	}
	return s.texts[field.Domain()]
}
