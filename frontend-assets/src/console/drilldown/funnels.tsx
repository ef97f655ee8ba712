// The panels of properties and funnels.
import { useQuery } from '../core/data';
import { exact, percent } from '../core/format';
import { t } from '../core/language';
import { Change } from '../core/metrics';
import { go } from '../core/router';
import { reading } from '../core/source';
import { Failed, Loading } from '../core/states';
import { share } from '../core/ui';
import { addressOf, selectionOf, type View } from '../core/view';
import { funnelFigures, funnels, propertyNames, sharedPropertyNames, type FunnelsData } from '../operations';
import type { DimensionRows } from '../report/panel';
import { Hints } from './imported';

/** Properties shows the values of one property of events, by Rows. Event and property stand in the URL. */
export function Properties({ id, view, Rows }: { id: string; view: View; Rows: typeof DimensionRows }) {
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
      <Rows id={id} dimension="PROPERTY" view={view} property={property} event={event} Hints={Hints} />
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
  if (!funnel) return <p class="none">{t('funnels.none')}</p>;
  return (
    <>
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

function Steps({ id, view, funnel }: { id: string; view: View; funnel: Saved }) {
  const query = useQuery(funnelFigures, { ...selectionOf(view), id, steps: funnel.steps }, true);
  const failure = query.error ?? query.part;
  if (failure) return <Failed failure={failure} retry={query.reload} />;

  const found = query.data?.site?.report?.funnel;
  if (!found) return <Loading />;
  const rate = (value: number | null): string => (value === null ? '–' : percent(value));
  return (
    <>
      <p>{t('funnel.result', { rate: rate(found.conversionRate), n: found.visitors })}</p>
      <ol class="ranks">
        {found.steps.map(({ step, visitors, fromPrevious, comparedVisitors }, i) => (
          <li key={i} style={share(visitors, Math.max(found.visitors, 1))}>
            <span>
              {i + 1}. {step.label}
            </span>
            <span class="figure" title={fromPrevious === null ? undefined : t('funnel.from', { rate: percent(fromPrevious) })}>
              {exact(visitors)} {fromPrevious !== null && <span class="hint">{percent(fromPrevious)} </span>}
              {comparedVisitors !== null && (
                <span class="delta">
                  <Change now={visitors} before={comparedVisitors} />
                </span>
              )}
            </span>
          </li>
        ))}
      </ol>
    </>
  );
}
