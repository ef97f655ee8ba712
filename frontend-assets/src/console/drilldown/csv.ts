// CSV text of a table.

/**
 * csv writes rows as CSV (RFC 4180) with line ends of CR and LF. It begins with a byte order mark, without which
 * spreadsheets read UTF-8 as another encoding. Line breaks within a cell are kept. Texts are
 * defused, as in the export's files. A missing number is empty.
 */
export function csv(rows: (string | number | null)[][]): string {
  return '\ufeff' + rows.map((row) => row.map(cell).join(',') + '\r\n').join('');
}

function cell(value: string | number | null): string {
  if (typeof value !== 'string') return value === null ? '' : String(value);

  const safe = defuse(value);
  return /[",\r\n]/.test(safe) ? `"${safe.replaceAll('"', '""')}"` : safe;
}

/**
 * formula matches the places before which a spreadsheet would run a formula: the start of a text, and of each
 * segment after a semicolon, tab or line break, where some spreadsheets split a cell despite its
 * quotes. They skip quotes, spaces and invisible characters before the sign. Some drop a leading
 * tab or line break.
 */
const formula = /(?<=^|[;\t\r\n])(?=(?:(?![;\t\r\n])["\s\p{Cc}\p{Cf}])*[=+\-@＝＋－＠])|^(?=[\t\r\n])/gu;

/** defuse inserts an apostrophe at these places. graph/export/cell.go has the same rule. */
export const defuse = (text: string): string => text.replace(formula, "'");
