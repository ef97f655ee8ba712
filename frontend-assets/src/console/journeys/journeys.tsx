// Journeys: which pages visits viewed after a page or event, or before it.
import { useEffect, useRef, useState } from 'preact/hooks';
import { useQuery } from '../core/data';
import { Dialog } from '../core/dialog';
import { decoded, exact, percent } from '../core/format';
import { t } from '../core/language';
import { go } from '../core/router';
import { reading } from '../core/source';
import { Loading } from '../core/states';
import { share } from '../core/ui';
import { dimensionText, naming } from '../core/values';
import { addressOf, selectionOf, type View } from '../core/view';
import { Figure, Head, pending } from '../parts/ranks';
import { sentPath } from '../parts/typed';
import { journey, journeyStarts, sharedJourney, sharedJourneyStarts } from '../operations';
import type { JourneyDirection, JourneyReport, JourneyStartInput, JourneyStartsReport, JourneyStep } from '../operations';

type Tree = NonNullable<JourneyReport['journey']>;
type Node = JourneyStep & { next?: Node[] };
type Start = NonNullable<JourneyStartsReport['pages']>['edges'][number]['node'];

/** nameOf writes a page or an event as reports do. */
const nameOf = (value: string): string => naming.event(decoded(value));

/** startOf returns the page or the event that an address names. */
const startOf = (from: string): JourneyStartInput => (/^[/*]/.test(from) ? { page: from } : { event: from });

/** Journeys is a dialog with the steps after a page or event, or before it. */
export function Journeys({ id, view, onClose }: { id: string; view: View; onClose(): void }) {
  const direction: JourneyDirection = view.before ? 'BEFORE' : 'NEXT';
  const tabs = useRef<HTMLElement>(null);
  const shown = useRef(view.journey);

  // The link to another start is removed with its column.
  useEffect(() => {
    if (shown.current !== view.journey) tabs.current!.querySelector<HTMLElement>('[aria-current]')!.focus();
    shown.current = view.journey;
  }, [view.journey]);
  return (
    <Dialog title={t('journey.title', { from: nameOf(view.journey) })} onClose={onClose} wide>
      <nav ref={tabs} class="tabs" aria-label={t('journey.direction')}>
        {(['NEXT', 'BEFORE'] as const).map((one) => (
          <a
            key={one}
            href={addressOf(view, { before: one === 'BEFORE' })}
            aria-current={one === direction || undefined}
          >
            {t(`journey.${one}`)}
          </a>
        ))}
      </nav>
      <Steps key={view.journey + direction} id={id} view={view} direction={direction} />
      <p class="hint">{t('journey.hint')}</p>
    </Dialog>
  );
}

/** Steps reads a journey. Another start or direction has new columns. */
function Steps({ id, view, direction }: { id: string; view: View; direction: JourneyDirection }) {
  const { period, filters } = selectionOf(view);
  const from = nameOf(view.journey);
  const query = useQuery(
    reading(id, journey, sharedJourney),
    { period, filters, from: startOf(view.journey), direction },
    true,
  );
  const failure = query.error ?? query.part;
  if (failure?.code === 'GROUP_TOO_SMALL') return <p class="none">{t('journey.small', { from })}</p>;
  const tree = query.data?.report?.journey;
  if (failure || !tree) return pending(query) ?? <Loading />;
  return (
    <div aria-busy={query.busy}>
      <p role="status">
        {tree.visits === 0
          ? t('journey.none', { from })
          : t(`journey.result${direction}`, { visits: t('journey.result', { n: tree.visits }), from })}
      </p>
      {tree.visits > 0 && <Columns view={view} tree={tree} />}
    </div>
  );
}

/** Columns shows a step in each column. The page that is chosen in a column decides what the next one shows. */
function Columns({ view, tree }: { view: View; tree: Tree }) {
  const [chosen, setChosen] = useState<string[]>([]);

  // By default the most frequent page is open, so that all columns are full.
  const columns: { above: string; nodes: Node[]; open: Node | undefined }[] = [];
  let nodes: Node[] | undefined = tree.next;
  let above = nameOf(view.journey);
  for (let i = 0; i < 3 && nodes; i++) {
    const list: Node[] = nodes;
    const open: Node | undefined = list.find((node) => node.page && node.page === chosen[i]) ?? list.find((node) => node.page);
    columns.push({ above, nodes: list, open });
    nodes = open?.next;
    above = nameOf(open?.page ?? '');
  }

  return (
    <div class="ways">
      {columns.map((column, i) => (
        <section key={i} aria-label={t('journey.step', { n: i + 1 })}>
          <h3>
            {t('journey.step', { n: i + 1 })}{' '}
            <span class="hint">{t(view.before ? 'journey.ahead' : 'journey.after', { page: column.above })}</span>
          </h3>
          <ol class="ranks">
            {column.nodes.map((node) => (
              <Place
                key={node.kind + node.page}
                view={view}
                node={node}
                all={tree.visits}
                last={i === 2}
                open={i < 2 && node === column.open}
                choose={() => setChosen([...chosen.slice(0, i), node.page!])}
              />
            ))}
          </ol>
        </section>
      ))}
    </div>
  );
}

/** Place is a node with its share of all visits: a button that opens what follows, and a link to the journeys from its page. */
function Place(props: { view: View; node: Node; all: number; last: boolean; open: boolean; choose(): void }) {
  const { view, node, open } = props;
  const direction = view.before ? 'BEFORE' : 'NEXT';
  const figure = (
    <span class="figure">
      {exact(node.visits)} <span class="hint">{percent((100 * node.visits) / props.all)}</span>
    </span>
  );
  const style = share(node.visits, props.all);
  if (!node.page)
    return (
      <li style={style}>
        <span class="other">{t(node.kind === 'END' ? `journey.end${direction}` : 'journey.other')}</span>
        {figure}
        <i class="onward" />
      </li>
    );

  const text = nameOf(node.page);
  const onward = (): void => go(addressOf(view, { journey: node.page! }));
  return (
    <li style={style}>
      <button
        type="button"
        class="link"
        title={text}
        aria-pressed={props.last ? undefined : open}
        onClick={props.last ? onward : props.choose}
      >
        {text}
      </button>
      {figure}
      <a class="onward" href={addressOf(view, { journey: node.page })} aria-label={t('journey.here', { page: text })}>
        <span aria-hidden="true">↪</span>
      </a>
    </li>
  );
}

/** Starts are the pages and events from which journeys can begin. */
export function Starts({ id, view }: { id: string; view: View }) {
  const { period, filters } = selectionOf(view);
  const query = useQuery(reading(id, journeyStarts, sharedJourneyStarts), { period, filters }, true);
  const wait = pending(query);
  if (wait) return wait;

  const report = query.data!.report;
  const lists = Object.entries({ PAGE: report?.pages, EVENT: report?.events }).map(([dimension, rows]) => ({
    name: dimensionText(dimension),
    starts: (rows?.edges ?? []).map(({ node }) => node).filter(({ value }) => value && value !== '(other)'),
  }));
  const submit = (e: SubmitEvent): void => {
    e.preventDefault();
    const from = String(new FormData(e.currentTarget as HTMLFormElement).get('from')).trim();
    const known = lists.flatMap(({ starts }) => starts).find(({ value }) => nameOf(value) === from);
    if (from) go(addressOf(view, { journey: known?.value ?? (from[0] === '/' ? sentPath(from) : from) }));
  };
  return (
    <>
      <form class="row" onSubmit={submit}>
        <div class="field">
          <label for="journey-from">{t('journey.from')}</label>
          <input id="journey-from" name="from" required maxLength={2_048} aria-describedby="journey-hint" />
        </div>
        <button type="submit">{t('journey.show')}</button>
      </form>
      <p class="hint" id="journey-hint">
        {t('journey.startHint')}
      </p>
      {lists.map((list) => list.starts[0] && <StartList key={list.name} {...list} view={view} />)}
      {!lists.some(({ starts }) => starts[0]) && <p class="none">{t('panel.none')}</p>}
    </>
  );
}

/** StartList is a table of the most frequent pages or events. */
function StartList({ name, starts, view }: { name: string; starts: Start[]; view: View }) {
  const most = Math.max(...starts.map(({ metrics }) => metrics.visitors));
  return (
    <div role="table" aria-label={name}>
      <Head names={[name, t('metric.visitors')]} />
      <div class="ranks" role="rowgroup">
        {starts.map(({ value, metrics }) => (
          <div key={value} role="row" style={share(metrics.visitors, most)}>
            <span role="rowheader">
              <a href={addressOf(view, { journey: value })}>{nameOf(value)}</a>
            </span>
            <Figure>{exact(metrics.visitors)}</Figure>
          </div>
        ))}
      </div>
    </div>
  );
}
