// The download of rows.
import { useRef, useState } from 'preact/hooks';
import { Failure } from '../core/api';
import { useQuery } from '../core/data';
import { Field, Select } from '../core/form';
import { exact } from '../core/format';
import { t } from '../core/language';
import { failureText, Missing } from '../core/states';
import { Section } from '../core/ui';
import { Code } from '../parts/copy';
import { patiently } from '../parts/patiently';
import { Progress } from '../parts/progress';
import { exportPage } from '../operations';
import { save } from '../parts/save';
import { SettingsPage } from '../parts/settings';
import { csvPage, jsonPage } from './rows';

const path = '/products/analytics/api/export.php';
const pageRows = 50_000; // the most rows that one request returns
const mostRows = 1_000_000; // a browser can hold this many; scripts have no such limit

/** utcDate returns the UTC day some days ago as YYYY-MM-DD. */
const utcDate = (daysAgo: number): string => new Date(Date.now() - daysAgo * 86_400_000).toISOString().slice(0, 10);

/** Export downloads page views or events of some days, with progress, in requests of 50,000 rows. */
export function Export({ id }: { id: string }) {
  const query = useQuery(exportPage, { id });
  const form = useRef<HTMLFormElement>(null);
  const [progress, setProgress] = useState<{ rows: number; wait: number }>();
  const [message, setMessage] = useState('');
  const [chosen, setChosen] = useState({ type: 'pageviews', from: utcDate(30), to: utcDate(0), format: 'csv' });
  const stop = useRef<AbortController | undefined>(undefined);

  const download = async (event: Event): Promise<void> => {
    event.preventDefault();
    stop.current = new AbortController();
    setMessage('');
    setProgress({ rows: 0, wait: 0 });
    try {
      const { blob, count } = await collect(id, chosen, setProgress, stop.current.signal);
      save(blob, `${chosen.type}-${chosen.from}-${chosen.to}.${chosen.format}`);
      setMessage(count >= mostRows ? t('export.cut', { n: count }) : t('export.done', { n: count }));
    } catch (error) {
      if (!stop.current.signal.aborted) setMessage(error instanceof Failure ? failureText(error) : String(error));
    } finally {
      setProgress(undefined);
    }
  };

  const read = (): void => setChosen(Object.fromEntries(new FormData(form.current!)) as typeof chosen);

  return (
    <SettingsPage id={id} query={query} title={t('export.title')}>
      {({ site }) => {
        if (!site) return <Missing />;
        const address = `${location.origin}${path}?${new URLSearchParams({ site_id: id, ...chosen, limit: String(pageRows) })}`;
        return (
          <>
            <Section title={t('export.rows')} hint={t('export.hint')}>
              <form ref={form} class="row" onSubmit={download} onInput={read}>
                <Select
                  name="type"
                  label={t('export.type')}
                  value={chosen.type}
                  options={[
                    ['pageviews', t('export.pageviews')],
                    ['events', t('export.events')],
                  ]}
                />
                <Field name="from" type="date" label={t('export.from')} value={chosen.from} max={utcDate(0)} required />
                <Field name="to" type="date" label={t('export.to')} value={chosen.to} max={utcDate(0)} required />
                <Select
                  name="format"
                  label={t('export.format')}
                  value={chosen.format}
                  options={[
                    ['csv', 'CSV'],
                    ['json', 'JSON'],
                  ]}
                />
                <div class="actions">
                  <button class="main" disabled={!!progress}>{t('export.download')}</button>
                </div>
              </form>
              {progress ? (
                <Progress text={t('export.progress', { n: progress.rows })} wait={progress.wait} stop={() => stop.current!.abort()} />
              ) : (
                <p role="status">{message}</p>
              )}
            </Section>
            <Section title={t('export.script')} hint={t('export.scriptHint')}>
              <Code text={`curl --header "Authorization: Bearer $TALLYGATE_API_TOKEN" \\\n  "${address}"`} label={t('export.script')} />
              <p>
                <a href="/tokens">{t('nav.tokens')}</a>
              </p>
            </Section>
            <Section
              title={t('export.daily')}
              hint={site.dailyExportUrl ? t('export.dailyOn', { url: site.dailyExportUrl }) : t('export.dailyOff')}
            >
              <p>
                <a href={`/sites/${id}/webhooks`}>{t('webhooks.title')}</a>
              </p>
            </Section>
          </>
        );
      }}
    </SettingsPage>
  );
}

/** read returns the answer to one request for rows. */
async function read(values: Record<string, string>, signal: AbortSignal): Promise<string> {
  const response = await fetch(`${path}?${new URLSearchParams(values)}`, { signal });
  const text = await response.text();
  if (response.ok) return text;

  const after = response.headers.get('Retry-After');
  if (after) throw new Failure('RATE_LIMITED', text, Number(after));
  throw new Failure('EXPORT', exact(response.status) + ' ' + text);
}

/** collect reads all rows of a selection, one page after the other, and reports how many it has. */
async function collect(
  id: string,
  chosen: { type: string; from: string; to: string; format: string },
  progress: (now: { rows: number; wait: number }) => void,
  signal: AbortSignal,
): Promise<{ blob: Blob; count: number }> {
  const parts: string[] = [];
  let count = 0;
  let cursor = '';
  do {
    const values = { site_id: id, ...chosen, limit: String(pageRows), ...(cursor && { cursor }) };
    const wait = (seconds: number): void => progress({ rows: count, wait: seconds });
    const text = await patiently(() => read(values, signal), wait, signal);

    const page = chosen.format === 'csv' ? csvPage(text, parts.length > 0) : jsonPage(text);
    if (page.rows > 0 || parts.length === 0) parts.push(page.text);
    count += page.rows;
    cursor = page.rows === pageRows && count < mostRows ? page.last : '';
    progress({ rows: count, wait: 0 });
  } while (cursor);

  const type = chosen.format === 'csv' ? 'text/csv' : 'application/json';
  return {
    blob: new Blob(chosen.format === 'csv' ? parts : ['[', parts.join(','), ']'], { type }),
    count,
  };
}
