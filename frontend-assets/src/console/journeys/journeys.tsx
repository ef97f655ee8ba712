// Journeys: which pages visits viewed after a page or event, or before it.
import { useLayoutEffect, useRef, useState } from 'preact/hooks';
import { useQuery } from '../core/data';
import { decoded, exact, percent } from '../core/format';
import { t } from '../core/language';
import { go, hasNavigated } from '../core/router';
import { reading } from '../core/source';
import { Loading } from '../core/states';
import { share } from '../core/ui';
import { dimensionText, naming } from '../core/values';
import { addressOf, selectionOf, type View, withFilter } from '../core/view';
import { Figure, Head, pending, valueFilter } from '../parts/ranks';
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

/** Journeys is the page of the steps after a page or event, or before it, in place of the figures of a report. */
export function Journeys({ id, view }: { id: string; view: View }) {
  const direction: JourneyDirection = view.before ? 'BEFORE' : 'NEXT';
  const heading = useRef<HTMLHeadingElement>(null);
  const { lists } = useStarts(id, view);

  // With the first paint, as a key may follow it at once. The link to another start is removed with its column.
  useLayoutEffect(() => {
    if (hasNavigated()) heading.current!.focus();
  }, [view.journey]);
  return (
    <section class="card">
      <p class="crumb"><a href={addressOf(view, { journey: '', before: false })}>← {t('site.report')}</a></p>
      <div class="title">
        <h2 ref={heading} tabIndex={-1}>{t('journey.title', { from: nameOf(view.journey) })}</h2>
        <Chooser key={view.journey} view={view} lists={lists} />
      </div>
      <nav class="tabs" aria-label={t('journey.direction')}>
        {(['NEXT', 'BEFORE'] as const).map((one) => (
          <a key={one} href={addressOf(view, { before: one === 'BEFORE' })} aria-current={one === direction || undefined}>
            {t(`journey.${one}`)}
          </a>
        ))}
      </nav>
      <Steps key={view.journey + direction} id={id} view={view} direction={direction} />
      <p class="hint">{t('journey.hint')}</p>
    </section>
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
            {/* What has left or entered stands last. */}
            {[...column.nodes.filter(({ kind }) => kind !== 'END'), ...column.nodes.filter(({ kind }) => kind === 'END')].map((node) => (
              <Place
                key={node.kind + node.page}
                view={view}
                node={node}
                all={tree.visits}
                open={i < 2 && node === column.open}
                choose={i < 2 ? () => setChosen([...chosen.slice(0, i), node.page!]) : undefined}
              />
            ))}
          </ol>
        </section>
      ))}
    </div>
  );
}

/** Place is a node with its share of all visits: a button that opens what follows, or in the last column its journeys, and a filter. */
function Place(props: { view: View; node: Node; all: number; open: boolean; choose: (() => void) | undefined }) {
  const { view, node, choose } = props;
  const text = node.page ? nameOf(node.page) : t(node.kind === 'END' ? `journey.end${view.before ? 'BEFORE' : 'NEXT'}` : 'journey.other');
  return (
    <li style={share(node.visits, props.all)}>
      {node.page ? (
        <button
          type="button"
          class="link"
          title={choose ? text : t('journey.here', { page: text })}
          aria-pressed={choose && props.open}
          onClick={choose ?? (() => go(addressOf(view, { journey: node.page! })))}
        >
          {text}
        </button>
      ) : <span class="other">{text}</span>}
      {node.page && (
        <a
          class="only"
          href={addressOf(view, { filters: withFilter(view.filters, valueFilter('PAGE', node.page)) })}
          aria-label={t('filter.by', { value: text })}
        >
          {t('filter.title')}
        </a>
      )}
      <span class="figure">
        {exact(node.visits)} <span class="hint">{percent((100 * node.visits) / props.all)}</span>
      </span>
    </li>
  );
}

type List = { name: string; starts: Start[] };

/** useStarts reads the most frequent pages and events, from which journeys can begin. */
function useStarts(id: string, view: View) {
  const { period, filters } = selectionOf(view);
  const query = useQuery(reading(id, journeyStarts, sharedJourneyStarts), { period, filters }, true);
  const report = query.data?.report;
  const lists = Object.entries({ PAGE: report?.pages, EVENT: report?.events }).map(([dimension, rows]): List => ({
    name: dimensionText(dimension),
    starts: (rows?.edges ?? []).map(({ node }) => node).filter(({ value }) => value && value !== '(other)'),
  }));
  return { query, lists };
}

/** Chooser asks for the page or event from which journeys begin, and offers the frequent ones. */
function Chooser({ view, lists }: { view: View; lists: List[] }) {
  const starts = lists.flatMap((list) => list.starts);
  const submit = (e: SubmitEvent): void => {
    e.preventDefault();
    const from = String(new FormData(e.currentTarget as HTMLFormElement).get('from')).trim();
    const known = starts.find(({ value }) => nameOf(value) === from);
    if (from) go(addressOf(view, { journey: known?.value ?? (from[0] === '/' ? sentPath(from) : from) }));
  };
  return (
    <form class="row" onSubmit={submit}>
      <div class="field">
        <label for="journey-from">{t('journey.from')}</label>
        <input id="journey-from" name="from" list="journey-starts" required maxLength={2_048} title={t('journey.startHint')} />
        <datalist id="journey-starts">{starts.map(({ value }) => <option key={value} value={nameOf(value)} />)}</datalist>
      </div>
      <button type="submit">{t('journey.show')}</button>
    </form>
  );
}

/** Starts is the tab of journeys: the pages and events from which they can begin. */
export function Starts({ id, view }: { id: string; view: View }) {
  const { query, lists } = useStarts(id, view);
  return (
    pending(query) ?? (
      <>
        <Chooser view={view} lists={lists} />
        {lists.map((list) => list.starts[0] && <StartList key={list.name} {...list} view={view} />)}
        {!lists.some(({ starts }) => starts[0]) && <p class="none">{t('panel.none')}</p>}
      </>
    )
  );
}

/** StartList is a table of the most frequent pages or events. */
function StartList({ name, starts, view }: List & { view: View }) {
  const most = Math.max(...starts.map(({ metrics }) => metrics.visitors));
  return (
    <div role="table" aria-label={name}>
      <Head names={[name, t('metric.visitors')]} />
      <div class="ranks" role="rowgroup">
        {starts.map(({ value, metrics }) => (
          <div key={value} role="row" style={share(metrics.visitors, most)}>
            <span role="rowheader"><a href={addressOf(view, { journey: value })}>{nameOf(value)}</a></span>
            <Figure>{exact(metrics.visitors)}</Figure>
          </div>
        ))}
      </div>
    </div>
  );
}
