// The panels of properties and funnels.
import type { ComponentChildren } from 'preact';
import { useQuery } from '../core/data';
import { exact, percent } from '../core/format';
import { t } from '../core/language';
import { Change, metricValue } from '../core/metrics';
import { go } from '../core/router';
import { reading } from '../core/source';
import { Loading } from '../core/states';
import { mayEdit } from '../core/store';
import { share } from '../core/ui';
import { addressOf, selectionOf, type View } from '../core/view';
import { funnelFigures, funnels, propertyNames, sharedPropertyNames, type FunnelsData } from '../operations';
import { Chooser, Compared, Head, pending } from '../parts/ranks';
import { Numbers } from './numbers';

/** RowsOf returns the rows of a property of an event. */
export type RowsOf = (of: { property: string; event: string }) => ComponentChildren;

/** Properties shows the values of one property of events. Event and property stand in the URL. */
export function Properties(props: { id: string; view: View; rows: RowsOf }) {
  const { id, view, rows } = props;
  const { period, filters } = selectionOf(view);
  const event = view.all ? '' : view.event;
  const variables = { period, filters, event: event || null };
  const query = useQuery(reading(id, propertyNames, sharedPropertyNames), variables, true);

  const wait = pending(query);
  if (wait) return wait;

  const names = query.data!.report?.propertyNames ?? [];
  const property = view.property || names[0]?.name;
  if (!property) return <p class="none">{t('property.none')}</p>;

  const options = names.map(({ name, events }): [string, string] => [name, `${name} (${exact(events)})`]);
  if (!names.some(({ name }) => name === property)) options.unshift([property, property]);
  return (
    <>
      <Chooser label={t('property.choose')} value={property} options={options} choose={(name) => go(addressOf(view, { property: name }))} />
      <Numbers id={id} view={view} property={property} event={event} values={rows({ property, event })} />
    </>
  );
}

type Saved = NonNullable<FunnelsData['site']>['funnels'][number];

/** mostTabs is the number of funnels that are tabs. More are a menu. */
const mostTabs = 4;

/** Funnels shows one of the saved funnels. */
export function Funnels({ id, view }: { id: string; view: View }) {
  const query = useQuery(funnels, { id });
  const wait = pending(query);
  if (wait) return wait;

  const saved = query.data!.site?.funnels ?? [];
  const funnel = saved.find((f) => f.id === view.funnel) ?? saved[0];
  const of = (id: string): string => addressOf(view, { funnel: id });
  return (
    <>
      {mayEdit() && <a class="all" href={`/sites/${id}/saved`}>{t('funnel.edit')}</a>}
      {!funnel ? (
        <p class="none">{t('funnels.none')}</p>
      ) : saved[mostTabs] ? (
        <Chooser label={t('funnel.choose')} value={funnel.id} options={saved.map((f) => [f.id, f.name])} choose={(id) => go(of(id))} />
      ) : (
        <nav class="subtabs" aria-label={t('funnel.choose')}>
          {saved.map((f) => <a key={f.id} href={of(f.id)} aria-current={f === funnel || undefined}>{f.name}</a>)}
        </nav>
      )}
      {funnel && <Steps key={funnel.id} id={id} view={view} funnel={funnel} />}
    </>
  );
}

/** Steps draws the visitors of each step, and between two steps how many are lost. Screen readers read a table. */
function Steps({ id, view, funnel }: { id: string; view: View; funnel: Saved }) {
  const query = useQuery(funnelFigures, { ...selectionOf(view), id, steps: funnel.steps }, true);
  const found = query.data?.site?.report?.funnel;
  if (query.error || query.part || !found) return pending(query) ?? <Loading />;

  const { visitors: all, conversionRate, steps } = found;
  const done = steps.at(-1)!;
  const before = done.comparedVisitors === null ? null : (100 * done.comparedVisitors) / steps[0]!.comparedVisitors! || 0;
  const losses = steps.map(({ visitors }, i) => (i ? steps[i - 1]!.visitors - visitors : 0));
  const most = Math.max(...losses, 1);
  return (
    <>
      <p class="done">
        <strong>{t('funnel.result', { rate: metricValue('share', conversionRate) })}</strong>{' '}
        {t('funnel.of', { n: done.visitors, all })} <Change metric="share" now={conversionRate} before={before} />
      </p>
      <div role="table" class="funnel" aria-label={funnel.name}>
        <Head names={[t('funnel.stepName'), t('metric.visitors'), t('funnel.ofFirst'), t('funnel.fromBefore')]} hidden />
        {steps.map(({ step, visitors, fromPrevious, comparedVisitors }, i) => (
          <div key={i} role="row" style={share(visitors, all)}>
            <span role="rowheader"><span><span class="hint">{i + 1}</span> {step.label}</span></span>
            <Compared now={visitors} before={comparedVisitors} />
            <span role="cell" class="portion">{all ? percent((100 * visitors) / all) : '–'}</span>
            <span role="cell" class={losses[i] === most ? 'drop most' : 'drop'}>
              {losses[i]! > 0 && t(losses[i] === most ? 'funnel.most' : 'funnel.drop', { rate: percent(fromPrevious! - 100), n: losses[i]! })}
            </span>
          </div>
        ))}
      </div>
    </>
  );
}
