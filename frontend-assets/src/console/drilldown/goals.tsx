// The panel of goals: key events, and segments with one filter on pages.
import type { ComponentChildren } from 'preact';
import type { UserError } from '../core/api';
import { useQuery } from '../core/data';
import { Field, Form } from '../core/form';
import { decoded, exact, percent } from '../core/format';
import { t } from '../core/language';
import { reading } from '../core/source';
import { Failed, Loading } from '../core/states';
import { announce, mayEdit } from '../core/store';
import { share } from '../core/ui';
import { addressOf, type Filter, selectionOf, type View, withFilter } from '../core/view';
import { money } from '../parts/format';
import { createSegment, goals, pageGoal, segments, sharedGoals, type GoalRevenue, type SegmentsData } from '../operations';
import { Compared, Figure, Head, pending, valueFilter } from '../parts/ranks';
import { mostFilters } from './dialogs';
import { EventLabel } from './eventlabel';
import { typed } from '../parts/typed';
import { isPageGoal, literalOf, matcherOf, mostPageGoals } from './patterns';

type Segment = NonNullable<SegmentsData['site']>['segments'][number];

/** Goals shows the goals of a site. Readers of a shared link have the key events alone. */
export function Goals({ id, view }: { id: string; view: View }) {
  const query = useQuery(reading(id, goals, sharedGoals), selectionOf(view), true);
  const saved = useQuery(readNamed, { id });

  const failure = query.error ?? query.part ?? saved.error;
  if (failure) return <Failed failure={failure} retry={() => Promise.all([query.reload(), saved.reload()]).then(() => undefined)} />;
  const report = query.data?.report;
  if (!report || !saved.data) return <Loading />;

  const rows = report.breakdown?.edges.map(({ node }) => node) ?? [];
  const events = rows.filter(({ metrics }) => metrics.conversions > 0);
  // A purchase is a key event of each site, also of one that sells nothing.
  const missed = saved.data.keyEvents
    .filter((name) => name !== 'purchase' && !rows.some(({ value }) => value === name))
    .map((value) => ({ value, metrics: { visitors: 0, events: 0, revenue: [], comparison: null } }));
  const pages = view.filters.length < mostFilters ? saved.data.segments.filter(isPageGoal) : [];
  const all = report.totals.visitors;
  return (
    <div class="later" aria-busy={query.busy}>
      {events[0] || missed[0] || pages[0] ? (
        <div role="table" class="goals" aria-label={t('dimension.GOAL')}>
          <Head names={[t('goal.goal'), t('metric.visitors'), t('goal.total'), t('goal.rate')]} />
          <div class="ranks" role="rowgroup">
            {[...events, ...missed].map(({ value, metrics }) => (
              <Goal
                key={value}
                view={view}
                filters={withFilter(view.filters, valueFilter('EVENT', value))}
                figures={{ ...metrics, total: metrics.events, before: metrics.comparison?.visitors }}
                all={all}
              >
                <EventLabel name={value} isKey />
              </Goal>
            ))}
            {pages.slice(0, mostPageGoals).map((segment) => (
              <PageGoal key={segment.id} id={id} view={view} segment={segment} all={all} />
            ))}
          </div>
        </div>
      ) : <p class="none">{t('goal.none')}</p>}
      {pages.length > mostPageGoals && <p class="hint">{t('goal.most', { n: mostPageGoals })}</p>}
      {id && mayEdit() && <NewPageGoal id={id} after={saved.reload} />}
    </div>
  );
}

/** readNamed reads the segments and the key events of a site. The readers of a shared link get none. */
const readNamed = async ({ id }: { id: string }, signal?: AbortSignal): Promise<{ segments: Segment[]; keyEvents: string[] }> =>
  (id ? (await segments({ id }, signal)).site : null) ?? { segments: [], keyEvents: [] };

interface Figures {
  visitors: number;
  /** Events or page views. Null if they are not known. */
  total: number | null;
  /** Of an event it is gross, as refunds are events of their own. Of pages it is the net revenue of their visits. */
  revenue: GoalRevenue[];
  net?: boolean;
  /** Visitors of the period compared with. */
  before: number | undefined;
}

/** Goal is a goal with its figures. It is a link that filters. */
function Goal(props: { view: View; filters: Filter[]; figures: Figures; all: number; children: ComponentChildren }) {
  const { view, figures, all } = props;
  const { net } = figures;
  return (
    <div role="row" style={share(figures.visitors, all)}>
      <span role="rowheader"><a href={addressOf(view, { filters: props.filters })}>{props.children}</a></span>
      <Compared now={figures.visitors} before={figures.before} />
      <Figure>{figures.total === null ? '–' : exact(figures.total)}</Figure>
      <Figure>{all ? percent((100 * figures.visitors) / all) : '–'}</Figure>
      {figures.revenue[0] && (
        <span role="cell" class="revenue hint">
          {t(net ? 'revenue.netShort' : 'revenue.gross')}: {figures.revenue.map((r) => money(net ? r.net : r.gross, r.currency)).join(' · ')}
        </span>
      )}
    </div>
  );
}

/** PageGoal reads the visits with a page of a goal, and counts the views of these pages. */
function PageGoal({ id, view, segment, all }: { id: string; view: View; segment: Segment; all: number }) {
  const { operator, values } = segment.filters[0]!;
  const filter: Filter = { dimension: 'PAGE', operator, values };
  const { period, compare } = selectionOf(view);
  const shown = [...new Set(values.map(decoded))];
  const search = literalOf(shown);
  const filters = [...view.filters, filter];
  const query = useQuery(pageGoal, { id, period, compare, filters, search }, true);

  const report = query.data?.site?.report;
  if (query.error || query.part) return pending(query);
  if (!report) return null;

  const { totals, breakdown } = report;
  const matches = matcherOf(operator, values);
  const views = breakdown?.edges.filter(({ node }) => matches(node.value)).reduce((sum, { node }) => sum + node.metrics.pageviews, 0);
  const total = !breakdown || breakdown.pageInfo.hasNextPage ? null : views!;
  return (
    <Goal
      view={view}
      filters={filters}
      all={all}
      figures={{ visitors: totals.visitors, total, revenue: totals.revenue, net: true, before: totals.comparison?.visitors }}
    >
      {segment.name} <span class="stored">{shown.join(', ')}</span>
    </Goal>
  );
}

/** NewPageGoal saves a segment with one filter on pages. */
function NewPageGoal({ id, after }: { id: string; after(): Promise<void> }) {
  const create = async ({ name = '', pattern = '' }: Record<string, string>): Promise<UserError[]> => {
    const path = pattern.trim();
    if (!/^[/*]/.test(path)) return [{ field: ['input', 'pattern'], code: '', message: t('goal.noSlash') }];

    const input = { siteId: id, name, filters: [{ dimension: 'PAGE' as const, operator: 'MATCHES' as const, values: typed('PAGE', path) }] };
    const errors = (await createSegment({ input })).createSegment?.userErrors ?? [];
    if (errors[0]) return errors.map((error) => (error.code === 'INVALID_FILTER' ? { ...error, field: ['input', 'pattern'] } : error));

    await after();
    announce(t('segment.saved', { name }));
    return [];
  };
  return (
    <details>
      <summary>{t('goal.new')}</summary>
      <p class="hint">{t('goal.hint')}</p>
      <Form submit={t('goal.create')} onSubmit={create} class="row" label={t('goal.new')}>
        <Field name="name" label={t('segment.name')} maxLength={100} required />
        <Field name="pattern" label={t('goal.pattern')} placeholder="/thanks" required />
      </Form>
    </details>
  );
}
