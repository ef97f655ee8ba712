// Pages of the export: how many rows one has, and where the next one begins.

/** ExportPage is the answer to one request for rows. */
export interface ExportPage {
  text: string;
  rows: number;
  /** The row_id of the last row. */
  last: string;
}

/** csvPage counts the records of a CSV text, and removes the header from all but the first page. */
export function csvPage(text: string, follows: boolean): ExportPage {
  let quoted = false;
  let records = 0;
  let start = 0; // of the current record
  let last = 0; // the start of the last record
  let header = 0; // the end of the first record
  for (let i = 0; i < text.length; i++) {
    const c = text.charCodeAt(i);
    if (c === 34) quoted = !quoted;
    else if (c === 10 && !quoted) {
      records++;
      last = start;
      start = i + 1;
      if (records === 1) header = start;
    }
  }

  return {
    text: follows ? text.slice(header) : text,
    rows: Math.max(records - 1, 0),
    last: /^[^,\r\n]*/.exec(text.slice(last))![0],
  };
}

/** jsonPage counts the rows of a JSON array, and returns its content without the brackets. */
export function jsonPage(text: string): ExportPage {
  const rows = JSON.parse(text) as { row_id: string | number }[];
  return {
    text: text.trim().slice(1, -1),
    rows: rows.length,
    last: String(rows[rows.length - 1]?.row_id ?? ''),
  };
}
