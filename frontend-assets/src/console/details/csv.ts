// CSV text of a table.

/**
 * csv writes rows as CSV (RFC 4180) with line ends of CR and LF. As in the export's files, a text that a
 * spreadsheet would run as a formula starts with an apostrophe. A missing number is empty.
 */
export function csv(rows: (string | number | null)[][]): string {
  return rows.map((row) => row.map(cell).join(',') + '\r\n').join('');
}

function cell(value: string | number | null): string {
  if (typeof value !== 'string') return value === null ? '' : String(value);

  const safe = value.replace(/(^|[;\t\r\n])(?=\s*[=+\-@\t\r])/g, "$1'");
  return /[",\r\n]/.test(safe) ? `"${safe.replaceAll('"', '""')}"` : safe;
}
