import assert from 'node:assert/strict';
import { createHash } from 'node:crypto';
import { readFileSync } from 'node:fs';
import { load, table, test } from '../harness';

const { csv, defuse } = load<typeof import('../../../src/console/drilldown/csv')>('console/drilldown/csv');

/** The cases of the export's tests, see graph/export/cell_test.go. The path is relative to frontend-assets. */
const shared = JSON.parse(readFileSync('../graph/export/testdata/cells.json', 'utf8')) as {
  cases: { name: string; text: string; cell: string }[];
  hidden: string[];
  all: { alphabet: string[]; length: number; sha256: string };
};

table('defuse', Object.fromEntries(shared.cases.map((row) => [row.name, row])), ({ text, cell }) =>
  assert.equal(defuse(text), cell),
);

test('defuse finds a formula behind each character that spreadsheets skip', () => {
  for (const span of shared.hidden) {
    const [first, last] = span.split('-').map((hex) => parseInt(hex, 16));
    for (let code = first!; code <= last!; code++) {
      const sign = String.fromCodePoint(code);
      const want = ';\t\r\n'.includes(sign) ? `x;${sign}'=1` : `x;'${sign}=1`;
      assert.equal(defuse(`x;${sign}=1`), want, code.toString(16));
    }
  }
});

test('defuse agrees with the export on all short texts', () => {
  const { alphabet, length, sha256 } = shared.all;
  const cells: string[] = [];
  let texts = [''];
  for (let n = 0; n < length; n++) {
    texts = texts.flatMap((text) => alphabet.map((sign) => text + sign));
    cells.push(...texts.map((text) => defuse(text) + '\0'));
  }
  assert.equal(createHash('sha256').update(new TextEncoder().encode(cells.join(''))).digest('hex'), sha256);
});

test('lines end with CR and LF, and line breaks within a cell are kept', () => {
  const rows = [
    ['page', 'visitors'],
    ['a\nb', 1],
    ['a\rb', 2.5],
    ['a\r\nb\r', null],
    ['say "x", y', -3],
  ];
  const want = 'page,visitors\r\n"a\nb",1\r\n"a\rb",2.5\r\n"a\r\nb\r",\r\n"say ""x"", y",-3\r\n';
  assert.equal(csv(rows), '\ufeff' + want);
});
