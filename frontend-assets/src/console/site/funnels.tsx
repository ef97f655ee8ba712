// The saved funnels of a site, and the form for another one.
import { useEffect, useId, useState } from 'preact/hooks';
import type { UserError } from '../core/api';
import { Confirm } from '../core/dialog';
import { Field, Form, Select, type Values } from '../core/form';
import { t } from '../core/language';
import { loadModule } from '../core/modules';
import { Empty } from '../core/states';
import { Section } from '../core/ui';
import { valueText } from '../core/values';
import { createFunnel, deleteFunnel, funnelChoices, stepVisitors, type FunnelFields } from '../operations';
import { sentPath } from '../parts/typed';
import type { SavedProps } from './savedprops';

const mostSteps = 8;

/** Funnels lists the saved funnels and saves another one. */
export function Funnels({ site, edit, after }: SavedProps) {
  return (
    <Section title={t('funnel.title')} hint={t('funnel.hint')}>
      {site.funnels.length === 0 && <Empty>{t('saved.noFunnels')}</Empty>}
      <ul class="rows">
        {site.funnels.map((f) => (
          <li key={f.id}>
            <span>
              <strong>{f.name}</strong>
              <br />
              <span class="hint">{f.steps.map((s) => s.label).join(' → ')}</span>
            </span>
            {edit && <DeleteFunnel funnel={f} after={after} />}
          </li>
        ))}
      </ul>
      {edit && <NewFunnel key={site.funnels.length} id={site.id} after={after} />}
    </Section>
  );
}

function DeleteFunnel({ funnel, after }: { funnel: FunnelFields; after: SavedProps['after'] }) {
  return (
    <Confirm
      button={t('saved.delete')}
      title={t('funnel.delete')}
      text={t('funnel.deleteText')}
      name={funnel.name}
      run={async () =>
        after(
          (await deleteFunnel({ input: { funnelId: funnel.id } })).deleteFunnel,
          t('saved.deleted', { name: funnel.name }),
        )
      }
    />
  );
}

/** NewFunnel asks for the steps of another funnel. It offers the pages and events that the site has. */
function NewFunnel({ id, after }: { id: string; after: SavedProps['after'] }) {
  const list = useId();
  const [open, setOpen] = useState(false);
  const [steps, setSteps] = useState(2);
  const choices = useChoices(id, open);
  const create = async (values: Values): Promise<UserError[]> => {
    const made = stepsOf(values, steps, choices);
    const wrong = made.filter(({ page }) => page !== undefined && !isPath(page));
    if (wrong.length > 0) {
      return wrong.map(({ field }) => ({ field: ['input', field], code: '', message: t('funnel.noSlash') }));
    }

    const input = { siteId: id, name: values['name'] ?? '', steps: made.map(({ field: _, ...step }) => step) };
    return after((await createFunnel({ input })).createFunnel);
  };

  return (
    <details onToggle={(e) => setOpen(e.currentTarget.open)}>
      <summary>{t('funnel.new')}</summary>
      <Form
        submit={t('funnel.create')}
        onSubmit={create}
        class="column"
        label={t('funnel.new')}
        after={
          steps < mostSteps && (
            <button type="button" onClick={() => setSteps(steps + 1)}>{t('funnel.moreSteps')}</button>
          )
        }
      >
        <Field name="name" label={t('funnel.name')} maxLength={100} required />
        {Array.from({ length: steps }, (_, i) => (
          <Step key={i} id={id} i={i} list={list} choices={choices} />
        ))}
      </Form>
      <datalist id={list}>
        {kinds.flatMap((kind) => choices[kind].map((value) => <option key={kind + value} value={shown(kind, value)} />))}
      </datalist>
    </details>
  );
}

/** recent returns the last 91 days with today, which the presets leave out, in any time zone. */
function recent(): { from: string; to: string } {
  const day = (later: number): string => new Date(Date.now() + later * 86_400_000).toISOString().slice(0, 10);
  return { from: day(-91), to: day(1) };
}

const kinds = ['page', 'event'] as const;

type Kind = (typeof kinds)[number];

/** Choices are the site's pages and events as they are stored, which the browser offers in the fields as they are shown. */
type Choices = Record<Kind, string[]>;

/** shown writes a page or event as reports do. */
const shown = (kind: Kind, value: string): string => valueText(kind.toUpperCase(), value);

/** storedOf returns the page or event that is stored for a text: the choice that the page shows so, or what browsers send. */
const storedOf = (choices: Choices, kind: Kind, text: string): string =>
  choices[kind].find((value) => shown(kind, value) === text) ?? (kind === 'page' ? sentPath(text) : text);

/** useChoices reads the choices once the form is open, and loads the module with the names of events. */
function useChoices(id: string, open: boolean): Choices {
  const [choices, setChoices] = useState<Choices>({ page: [], event: [] });
  useEffect(() => {
    if (!open) return undefined;

    const stop = new AbortController();
    const names = loadModule(() => import('../drilldown'));
    void Promise.all([funnelChoices({ id, period: recent() }, stop.signal), names]).then(
      ([{ site }]) => {
        const { pages, events } = site?.report ?? {};
        const [page, event] = [pages, events].map((list) => list?.edges.flatMap(({ node }) => node.value || []) ?? []);
        setChoices({ page: page!, event: event! });
      },
      () => undefined, // the form works without choices
    );
    return () => stop.abort();
  }, [id, open]);
  return choices;
}

/** isPath reports whether a text can be the path of a page, or a pattern of paths. */
const isPath = (text: string): boolean => /^[/*]/.test(text);

/** kindOf guesses what a text names. Pasted addresses are pages, too. */
const kindOf = (text: string): Kind => (!text || isPath(text) || /^https?:/.test(text) ? 'page' : 'event');

/** Step is one step of the form. Its kind follows the text until the user chooses one. */
function Step({ id, i, list, choices }: { id: string; i: number; list: string; choices: Choices }) {
  const [value, setValue] = useState('');
  const [chosen, setChosen] = useState<Kind>();
  const kind = chosen ?? kindOf(value);
  const unknown = useUnknown(id, kind, storedOf(choices, kind, value));

  const changed = ({ target }: Event): void => {
    const { name, value } = target as HTMLInputElement | HTMLSelectElement;
    if (name === 'value' + i) setValue(value.trim());
    if (name === 'kind' + i) setChosen(value as Kind);
  };
  return (
    <fieldset class="step" onInput={changed}>
      <legend>{t('funnel.step', { n: i + 1 })}</legend>
      <div class="inline">
        <Field name={'value' + i} label={t('funnel.value')} placeholder="/shop/**" list={list} required={i < 2} />
        <Select
          name={'kind' + i}
          label={t('funnel.kind')}
          value={kind}
          options={[
            ['page', t('funnel.page')],
            ['event', t('funnel.event')],
          ]}
        />
        <Field name={'label' + i} label={t('funnel.label')} maxLength={100} />
      </div>
      <div role="status">
        {unknown && (
          <p class="notice">{t(kind === 'page' ? 'funnel.unknownPage' : 'funnel.unknownEvent', { name: shown(kind, unknown) })}</p>
        )}
      </div>
    </fieldset>
  );
}

/** useUnknown returns a value if no visit of the last 91 days has this page or event, or ''. */
function useUnknown(id: string, kind: Kind, value: string): string {
  const [unknown, setUnknown] = useState('');
  useEffect(() => {
    setUnknown('');
    if (!value || (kind === 'page' && !isPath(value))) return undefined;

    const stop = new AbortController();
    const filter =
      kind === 'page'
        ? { dimension: 'PAGE' as const, operator: 'MATCHES' as const, values: [value] }
        : { dimension: 'EVENT' as const, operator: 'IS' as const, values: [value] };
    const look = (): void =>
      void stepVisitors({ id, period: recent(), filters: [filter] }, stop.signal).then(
        ({ site }) => setUnknown(site?.report?.totals.visitors === 0 ? value : ''),
        () => undefined, // the form works without the question
      );
    const timer = setTimeout(look, 400);
    return () => {
      clearTimeout(timer);
      stop.abort();
    };
  }, [id, kind, value]);
  return unknown;
}

interface StepInput {
  /** The name of the form's field with the page or event. */
  field: string;
  page?: string;
  event?: string;
  label?: string;
}

/**
 * stepsOf reads the steps from the values of the form. Steps without a page or event are left out. A step has one
 * stored value, and keeps the typed text as its name.
 */
function stepsOf(values: Values, count: number, choices: Choices): StepInput[] {
  const steps: StepInput[] = [];
  for (let i = 0; i < count; i++) {
    const field = 'value' + i;
    const value = (values[field] ?? '').trim();
    const label = values['label' + i];
    const kind = values['kind' + i] === 'event' ? 'event' : 'page';
    const stored = storedOf(choices, kind, value);
    const name = label || (stored !== value && value.slice(0, 100));
    if (value) steps.push({ field, [kind]: stored, ...(name && { label: name }) });
  }
  return steps;
}
