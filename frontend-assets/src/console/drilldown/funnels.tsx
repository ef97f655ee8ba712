// The panels of properties and funnels.
import type { ComponentChildren } from 'preact';
import { useQuery } from '../core/data';
import { exact, percent } from '../core/format';
import { t } from '../core/language';
import { Change } from '../core/metrics';
import { go } from '../core/router';
import { reading } from '../core/source';
import { Failed, Loading } from '../core/states';
import { mayEdit } from '../core/store';
import { share } from '../core/ui';
import { addressOf, selectionOf, type View } from '../core/view';
import { funnelFigures, funnels, propertyNames, sharedPropertyNames, type FunnelsData } from '../operations';
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

  const failure = query.error ?? query.part;
  if (failure) return <Failed failure={failure} retry={query.reload} />;
  if (!query.data) return <Loading />;

  const names = query.data.report?.propertyNames ?? [];
  const property = view.property || names[0]?.name;
  if (!property) return <p class="none">{t('property.none')}</p>;
  return (
    <>
      <p class="choice">
        <label>
          {t('property.choose')}{' '}
          <select value={property} onChange={(e) => go(addressOf(view, { property: e.currentTarget.value }))}>
            {!names.some(({ name }) => name === property) && <option>{property}</option>}
            {names.map(({ name, events }) => (
              <option key={name} value={name}>{`${name} (${exact(events)})`}</option>
            ))}
          </select>
        </label>
      </p>
      <Numbers id={id} view={view} property={property} event={event} values={rows({ property, event })} />
    </>
  );
}

type Saved = NonNullable<FunnelsData['site']>['funnels'][number];

/** Funnels shows one of the saved funnels. */
export function Funnels({ id, view }: { id: string; view: View }) {
  const query = useQuery(funnels, { id });
  if (query.error) return <Failed failure={query.error} retry={query.reload} />;
  if (!query.data) return <Loading />;

  const saved = query.data.site?.funnels ?? [];
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
      <p class="choice">
        <label>
          {t('funnel.choose')}{' '}
          <select value={funnel.id} onChange={(e) => go(addressOf(view, { funnel: e.currentTarget.value }))}>
            {saved.map((f) => (
              <option key={f.id} value={f.id}>
                {f.name}
              </option>
            ))}
          </select>
        </label>
      </p>
      <Steps key={funnel.id} id={id} view={view} funnel={funnel} />
    </>
  );
}

/** Steps draws the visitors of each step, and how many leave before the next. Screen readers read a table. */
function Steps({ id, view, funnel }: { id: string; view: View; funnel: Saved }) {
  const query = useQuery(funnelFigures, { ...selectionOf(view), id, steps: funnel.steps }, true);
  const failure = query.error ?? query.part;
  if (failure) return <Failed failure={failure} retry={query.reload} />;

  const found = query.data?.site?.report?.funnel;
  if (!found) return <Loading />;

  const rate = (value: number | null): string => (value === null ? '–' : percent(value));
  const ofFirst = (visitors: number): string => rate(found.visitors ? (100 * visitors) / found.visitors : null);
  return (
    <>
      <p>{t('funnel.result', { rate: rate(found.conversionRate), n: found.visitors })}</p>
      <div role="table" class="funnel" aria-label={funnel.name}>
        <p class="sr" role="row">
          <span role="columnheader">{t('funnel.stepName')}</span>
          <span role="columnheader">{t('metric.visitors')}</span>
          <span role="columnheader">{t('funnel.ofFirst')}</span>
          <span role="columnheader">{t('funnel.fromBefore')}</span>
        </p>
        {found.steps.map(({ step, visitors, fromPrevious, comparedVisitors }, i) => {
          const lost = i ? found.steps[i - 1]!.visitors - visitors : 0;
          return (
            <div key={i} role="row" style={share(visitors, found.visitors)}>
              <span role="rowheader">
                {i + 1}. {step.label}
              </span>
              <span role="cell" class="figure">
                {exact(visitors)}
                {comparedVisitors !== null && (
                  <>
                    {' '}
                    <span class="delta">
                      <Change now={visitors} before={comparedVisitors} />
                    </span>
                  </>
                )}
              </span>
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
