// English texts of the download of a whole report.
export default {
  'download.title': 'Download this report',
  'download.text': 'A zip of CSV files: totals, the chart, and all values of each table, with these dates, filters and comparison.',
  'download.start': 'Download',
  'download.progress': '{n} of {of} tables, {rows} rows so far …',
  'download.done': '{name} is downloaded',
};
