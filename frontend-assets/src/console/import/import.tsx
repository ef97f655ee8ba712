// The import of another service's figures: the upload, the preview, the import, and the list of imports.
import { useEffect, useRef, useState } from 'preact/hooks';
import { Failure, type UserError } from '../core/api';
import { toSignIn, useQuery } from '../core/data';
import { Action, Confirm } from '../core/dialog';
import { Field, Form, Select, type Values } from '../core/form';
import { exact, percent, utcDay } from '../core/format';
import { t, translated } from '../core/language';
import { failureText, Missing } from '../core/states';
import { announce, mayEdit } from '../core/store';
import { Section, Table, Time } from '../core/ui';
import {
  cancelImport,
  confirmImport,
  importPage,
  startImport,
  undoImport,
  type ImportJobFields,
  type ImportSource,
  type ReportImportFields,
  type StartImportInput,
} from '../operations';
import { SettingsPage } from '../parts/settings';
import { upload } from './upload';

const products: [ImportSource, string][] = [
  ['PLAUSIBLE', 'Plausible'],
  ['UMAMI', 'Umami'],
  ['GOATCOUNTER_API', 'GoatCounter'],
  ['GA4', 'Google Analytics 4'],
  ['MATOMO', 'Matomo'],
];
const productOf = (source: ImportSource): string => products.find(([value]) => value === source)?.[1] ?? source;

const pollEvery = 1_000; // milliseconds, while the server works

/** Sent is an upload of this page. */
interface Sent {
  received: number;
  failure?: string;
}

/** Import shows the site's imports, and the steps of one in progress. */
export function Import({ id }: { id: string }) {
  const query = useQuery(importPage, { id });
  const [sent, setSent] = useState<Sent>();
  const files = useRef<File[]>([]);
  const stop = useRef<AbortController | undefined>(undefined);
  const latest = query.data?.site?.importJobs[0];
  const works = latest?.state === 'READING' || latest?.state === 'STORING';

  // The server works by itself.
  useEffect(() => {
    if (!works) return;
    const timer = setTimeout(() => void query.reload(), pollEvery);
    return () => clearTimeout(timer);
  }, [works, query.data, query.error]);
  useEffect(() => () => stop.current?.abort(), []);

  // A step that has begun is announced once.
  const step = latest?.state;
  const before = useRef(step);
  useEffect(() => {
    // The box of a failure is an alert itself.
    if (before.current && step && step !== before.current && step !== 'FAILED') announce(t(`import.state.${step}`));
    before.current = step;
  }, [step]);

  const send = async (job: ImportJobFields, chosen: File[]): Promise<void> => {
    files.current = chosen;
    const end = (stop.current = new AbortController());
    setSent({ received: job.received });
    try {
      await upload(job.id, chosen, job.received, (received) => setSent({ received }), end.signal);
      await query.reload();
      setSent(undefined);
    } catch (error) {
      if (end.signal.aborted) return;
      if (!(error instanceof Failure)) throw error;
      if (error.code === 'UNAUTHENTICATED') return toSignIn();
      await query.reload();
      setSent({ received: job.received, failure: failureText(error) });
    }
  };

  const start = async (input: StartImportInput, chosen: File[]): Promise<UserError[]> => {
    const payload = (await startImport({ input })).startImport;
    const job = payload?.importJob;
    if (job) {
      await query.reload();
      if (job.state === 'UPLOADING') void send(job, chosen);
    }
    return payload?.userErrors ?? [];
  };

  const end = async (run: Promise<UserError[]>): Promise<UserError[]> => {
    const errors = await run;
    if (errors.length === 0) {
      stop.current?.abort();
      setSent(undefined);
      await query.reload();
    }
    return errors;
  };
  const confirm = (job: ImportJobFields): Promise<UserError[]> =>
    end(confirmImport({ input: { importJobId: job.id } }).then((data) => data.confirmImport?.userErrors ?? []));
  const cancel = (job: ImportJobFields): Promise<UserError[]> =>
    end(cancelImport({ input: { importJobId: job.id } }).then((data) => data.cancelImport?.userErrors ?? []));

  return (
    <SettingsPage id={id} query={query} title={t('import.title')}>
      {({ site }) => {
        if (!site) return <Missing />;
        const edit = mayEdit();
        const open = latest && ['UPLOADING', 'READING', 'READY', 'STORING'].includes(latest.state) ? latest : undefined;
        return (
          <>
            <p class="lead">{t('import.hint')}</p>
            {latest?.error && !open && <Failed job={latest} />}
            {open && (
              <Section title={t('import.current', { product: productOf(open.source) })}>
                {open.state === 'UPLOADING' && <Uploading job={open} sent={sent} edit={edit} send={send} />}
                {works && <Working job={open} />}
                {open.state === 'READY' && <Preview job={open} />}
                {edit && (
                  <div class="actions">
                    {open.state === 'READY' && (
                      <Action run={() => confirm(open)} label={t('import.confirm')}>
                        {t('import.confirm')}
                      </Action>
                    )}
                    <Action run={() => cancel(open)} done={t('import.state.CANCELED')} danger>
                      {open.state === 'READY' ? t('import.discard') : t('import.cancel')}
                    </Action>
                  </div>
                )}
              </Section>
            )}
            {edit && (
              // The form keeps its service and files until an import is complete, for another try.
              <div hidden={!!open}>
                <Start
                  key={site.importJobs.find((job) => job.state === 'COMPLETE')?.id}
                  siteId={id}
                  service={latest?.state === 'FAILED' ? latest.source : 'PLAUSIBLE'}
                  start={start}
                />
              </div>
            )}
            <Imports list={site.imports} edit={edit} reload={query.reload} />
          </>
        );
      }}
    </SettingsPage>
  );
}

/** filesIn returns the chosen files of a form. */
const filesIn = (area: HTMLElement): File[] => [
  ...(area.querySelector<HTMLInputElement>('input[type=file]')?.files ?? []),
];

/** Start is the form for a new import. */
function Start(props: {
  siteId: string;
  service: ImportSource;
  start(input: StartImportInput, files: File[]): Promise<UserError[]>;
}) {
  const [source, setSource] = useState(props.service);
  const area = useRef<HTMLDivElement>(null);
  const isApi = source === 'GOATCOUNTER_API';

  const submit = async (values: Values): Promise<UserError[]> => {
    const chosen = filesIn(area.current!);
    const { firstDay, lastDay } = values;
    const days = { ...(firstDay && { firstDay }), ...(lastDay && { lastDay }) };
    const from = isApi
      ? { address: values['address'] ?? '', token: values['token'] ?? '' }
      : { files: chosen.map(({ name, size }) => ({ name, size })) };
    return props.start({ siteId: props.siteId, source, ...days, ...from }, chosen);
  };

  return (
    <Section title={t('import.new')}>
      <div
        ref={area}
        onChange={(e) => 'name' in e.target! && e.target.name === 'source' && setSource((e.target as HTMLSelectElement).value as ImportSource)}
      >
        <Form submit={isApi ? t('import.read') : t('import.upload')} onSubmit={submit} class="column" label={t('import.new')}>
          <Select name="source" label={t('import.product')} value={source} options={products} hint={t(`import.from.${source}`)} />
          {isApi ? (
            <>
              <Field name="address" label={t('import.address')} placeholder="https://stats.example.com" inputMode="url" required />
              <Field name="token" type="password" label={t('import.token')} hint={t('import.tokenHint')} autoComplete="off" required />
            </>
          ) : (
            <Field key="files" name="files" type="file" multiple label={t('import.files')} hint={t('import.filesHint')} required />
          )}
          {/* Keys keep a day in its field when the fields before change. */}
          <Field key="first" name="firstDay" type="date" label={t('import.since')} hint={t('import.sinceHint')} />
          <Field key="last" name="lastDay" type="date" label={t('import.until')} />
        </Form>
      </div>
    </Section>
  );
}

const megabytes = (bytes: number): string => exact(Math.round((bytes / (1 << 20)) * 10) / 10);

/** Bar shows how far a step is. */
function Bar({ done, text }: { done: number; text: string }) {
  return (
    <p class="quota">
      <span>{text}</span>
      <progress max={1} value={done} aria-label={text} />
    </p>
  );
}

/** Uploading shows how far the upload is, or continues one with the same files. */
function Uploading(props: {
  job: ImportJobFields;
  sent: Sent | undefined;
  edit: boolean;
  send(job: ImportJobFields, files: File[]): Promise<void>;
}) {
  const { job, sent } = props;
  const area = useRef<HTMLDivElement>(null);
  const [message, setMessage] = useState('');
  const received = sent?.received ?? job.received;
  const text = t('import.uploading', { done: megabytes(received), all: megabytes(job.size), share: percent((100 * received) / job.size) });

  const resume = async (): Promise<void> => {
    const chosen = filesIn(area.current!);
    const ordered = job.files.map((f) => chosen.find((c) => c.name === f.name && c.size === f.size));
    if (ordered.includes(undefined)) return setMessage(t('import.otherFiles', { names: job.files.map((f) => f.name).join(', ') }));
    setMessage('');
    void props.send(job, ordered as File[]);
  };
  return (
    <>
      <Bar done={received / job.size} text={text} />
      {sent?.failure && (
        <p class="error" role="alert">
          {sent.failure}
        </p>
      )}
      {props.edit && (!sent || sent.failure) && (
        <div ref={area}>
          <Form submit={t('import.continue')} onSubmit={resume} class="column" label={t('import.continue')}>
            <Field name="files" type="file" multiple label={t('import.sameFiles')} hint={job.files.map((f) => f.name).join(', ')} required />
          </Form>
          {message && (
            <p class="error" role="alert">
              {message}
            </p>
          )}
        </div>
      )}
    </>
  );
}

/** Working shows how far the server is. */
function Working({ job }: { job: ImportJobFields }) {
  return <Bar done={job.progress} text={`${t(`import.state.${job.state}`)} ${percent(100 * job.progress)}`} />;
}

/** Preview shows what is imported and what is skipped. */
function Preview({ job }: { job: ImportJobFields }) {
  const p = job.preview!;
  const remarks = [
    ...(p.ownRows > 0 ? [t('import.ownRows', { n: p.ownRows, day: utcDay(p.ownFrom) })] : []),
    ...(p.otherRows > 0 ? [t('import.otherRows', { n: p.otherRows })] : []),
    ...p.notes.map(
      (note) =>
        t(`import.note.${note.code}`, { n: note.count ?? 0, column: note.column ?? '' }) +
        note.events.map((e, i) => (i ? ', ' : ' ') + t('import.event', { name: e.name, as: e.reportedAs })).join(''),
    ),
  ];
  return (
    <>
      <p>
        <strong>
          {t('import.taken', { first: utcDay(p.firstDay), last: utcDay(p.lastDay), n: p.days })}
        </strong>
      </p>
      <div class="figures">
        <Table label={t('import.figures')} head={[t('import.visitors'), t('import.visits'), t('import.pageviews'), t('import.events')]}>
          <tr>
            <td class="number">{exact(p.visitors)}</td>
            <td class="number">{exact(p.visits)}</td>
            <td class="number">{exact(p.pageviews)}</td>
            <td class="number">{exact(p.events)}</td>
          </tr>
        </Table>
      </div>
      {remarks.length > 0 && (
        <ul>
          {remarks.map((text) => (
            <li key={text}>{text}</li>
          ))}
        </ul>
      )}
      <div class="figures">
        <Table label={t('import.files')} head={[t('import.file'), t('import.rows'), t('import.use')]}>
          {p.files.map((f) => (
            <tr key={f.name}>
              <th scope="row">{f.name}</th>
              <td class="number">{exact(f.rows)}</td>
              <td>{t(f.unusedCode ? `import.unused.${f.unusedCode}` : 'import.used')}</td>
            </tr>
          ))}
        </Table>
      </div>
    </>
  );
}

/** Failed says why the latest import has failed. */
function Failed({ job }: { job: ImportJobFields }) {
  const error = job.error!;
  const { code, fault, name, value, count, limit, source } = error;
  const [first, last] = [error.firstDay, error.lastDay].map((day) => (day ? utcDay(day) : ''));
  const reason = translated(fault ? 'fault' : 'error', fault ?? code, error.message, {
    name: name ?? '',
    value: value ?? '',
    product: source ? productOf(source) : '',
    n: count,
    limit,
    days: error.lastDay && first !== last ? t('import.range', { first: first!, last: last! }) : first!,
  });
  const place = error.line ? t('import.line', { file: error.file ?? '', n: error.line }) : error.file;
  return (
    <div class="notice bad" role="alert">
      <p>{t('import.failed', { product: productOf(job.source) })}</p>
      <p>
        {place && `${place}: `}
        {reason}
      </p>
    </div>
  );
}

/** Imports lists the imports of the site. */
function Imports(props: { list: ReportImportFields[]; edit: boolean; reload(): Promise<void> }) {
  if (props.list.length === 0) return <p>{t('import.none')}</p>;

  const head = [
    t('import.product'),
    t('import.days'),
    t('import.visitors'),
    t('import.pageviews'),
    t('import.when'),
    ...(props.edit ? [t('import.action')] : []),
  ];
  return (
    <Section title={t('import.list')}>
      <div class="figures">
        <Table label={t('import.list')} head={head}>
          {props.list.map((one) => (
            <tr key={one.id}>
              <th scope="row">{productOf(one.source)}</th>
              <td>
                {utcDay(one.firstDay)} – {utcDay(one.lastDay)}
              </td>
              <td class="number">{exact(one.visitors)}</td>
              <td class="number">{exact(one.pageviews)}</td>
              <td>
                <Time at={one.importedAt} /> {one.importedBy ?? (one.byCommand && t('import.byCommand'))}
              </td>
              {props.edit && (
                <td class="number">
                  <Undo one={one} reload={props.reload} />
                </td>
              )}
            </tr>
          ))}
        </Table>
      </div>
    </Section>
  );
}

function Undo({ one, reload }: { one: ReportImportFields; reload(): Promise<void> }) {
  const product = productOf(one.source);
  const run = async (): Promise<UserError[]> => {
    const errors = (await undoImport({ input: { importId: one.id } })).undoImport?.userErrors ?? [];
    if (errors.length === 0) {
      announce(t('import.undone'));
      await reload();
    }
    return errors;
  };
  return (
    <Confirm button={t('import.undo')} title={t('import.undo')} text={t('import.undoText')} name={product} run={run} />
  );
}
