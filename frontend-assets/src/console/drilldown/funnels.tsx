// The panels of properties and funnels.
import type { ComponentChildren } from 'preact';
import { useQuery } from '../core/data';
import { exact, percent } from '../core/format';
import { t } from '../core/language';
import { go } from '../core/router';
import { reading } from '../core/source';
import { Loading } from '../core/states';
import { mayEdit } from '../core/store';
import { share } from '../core/ui';
import { addressOf, selectionOf, type View } from '../core/view';
import { funnelFigures, funnels, propertyNames, sharedPropertyNames, type FunnelsData } from '../operations';
import { Choice, Compared, Head, pending } from '../parts/ranks';
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
      <Choice label={t('property.choose')} value={property} options={options} choose={(name) => go(addressOf(view, { property: name }))} />
      <Numbers id={id} view={view} property={property} event={event} values={rows({ property, event })} />
    </>
  );
}

type Saved = NonNullable<FunnelsData['site']>['funnels'][number];

/** Funnels shows one of the saved funnels. */
export function Funnels({ id, view }: { id: string; view: View }) {
  const query = useQuery(funnels, { id });
  const wait = pending(query);
  if (wait) return wait;

  const saved = query.data!.site?.funnels ?? [];
  const funnel = saved.find((f) => f.id === view.funnel) ?? saved[0];
  const toSaved = mayEdit() && (
    <a class="all" href={`/sites/${id}/saved`}>
      {t('funnel.edit')}
    </a>
  );
  if (!funnel)
    return (
      <>
        {toSaved}
        <p class="none">{t('funnels.none')}</p>
      </>
    );
  return (
    <>
      {toSaved}
      <Choice
        label={t('funnel.choose')}
        value={funnel.id}
        options={saved.map((f) => [f.id, f.name])}
        choose={(id) => go(addressOf(view, { funnel: id }))}
      />
      <Steps key={funnel.id} id={id} view={view} funnel={funnel} />
    </>
  );
}

/** Steps draws the visitors of each step, and how many leave before the next. Screen readers read a table. */
function Steps({ id, view, funnel }: { id: string; view: View; funnel: Saved }) {
  const query = useQuery(funnelFigures, { ...selectionOf(view), id, steps: funnel.steps }, true);
  const found = query.data?.site?.report?.funnel;
  if (query.error || query.part || !found) return pending(query) ?? <Loading />;

  const rate = (value: number | null): string => (value === null ? '–' : percent(value));
  const ofFirst = (visitors: number): string => rate(found.visitors ? (100 * visitors) / found.visitors : null);
  return (
    <>
      <p>{t('funnel.result', { rate: rate(found.conversionRate), n: found.visitors })}</p>
      <div role="table" class="funnel" aria-label={funnel.name}>
        <Head names={[t('funnel.stepName'), t('metric.visitors'), t('funnel.ofFirst'), t('funnel.fromBefore')]} hidden />
        {found.steps.map(({ step, visitors, fromPrevious, comparedVisitors }, i) => {
          const lost = i ? found.steps[i - 1]!.visitors - visitors : 0;
          return (
            <div key={i} role="row" style={share(visitors, found.visitors)}>
              <span role="rowheader">
                {i + 1}. {step.label}
              </span>
              <Compared now={visitors} before={comparedVisitors} />
              <span role="cell" class="portion">
                {ofFirst(visitors)}
              </span>
              <span role="cell" class="drop">
                {i > 0 && t('funnel.drop', { rate: rate(fromPrevious), n: lost })}
              </span>
            </div>
          );
        })}
      </div>
    </>
  );
}
