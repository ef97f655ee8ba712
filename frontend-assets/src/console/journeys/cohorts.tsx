// Cohorts: user ids by the week of their first visit, and how many came back.
import { useQuery } from '../core/data';
import { exact, percent, utcDay } from '../core/format';
import { t } from '../core/language';
import { reading } from '../core/source';
import { addressOf, selectionOf, type View } from '../core/view';
import { cohorts, sharedCohorts, type CohortsReport } from '../operations';
import { pending } from '../parts/ranks';

type Week = NonNullable<CohortsReport['cohorts']>['weeks'][number];
type Return = Week['returned'][number];

/** Cohorts is the table of a report's cohorts. */
export function Cohorts({ id, view }: { id: string; view: View }) {
  const { period, filters } = selectionOf(view);
  const query = useQuery(reading(id, cohorts, sharedCohorts), { period, filters }, true);
  const failure = query.error ?? query.part;
  if (failure?.code === 'INVALID_ARGUMENT') return <p class="none">{t('cohort.tooLong')}</p>;
  const wait = pending(query);
  if (wait) return wait;

  const found = query.data!.report?.cohorts;
  if (!found)
    return (
      <p class="none">{t('cohort.off')} {id && <a href={`/sites/${id}/measurement`}>{t('cohort.settings')}</a>}</p>
    );
  if (!found.weeks[0]) return <p class="none">{t('cohort.none')}</p>;

  // Weeks before the first visit of all say nothing.
  const weeks = found.weeks.slice(Math.max(found.weeks.findIndex(({ users }) => users !== 0), 0));
  if (weeks[0]!.users === 0)
    return (
      <p class="none">
        {t('cohort.empty')} {view.period !== 'today' && <a href={addressOf(view, { period: 'today', from: '', to: '' })}>{t('period.today')}</a>}
      </p>
    );

  const columns = Math.max(...weeks.map((week) => week.returned.length));
  const isSmall = weeks.some((week) => week.users === null || week.returned.some(({ users }) => users === null));
  return (
    <div class="cohorts" aria-busy={query.busy}>
      <div class="scroll" tabIndex={0} role="group" aria-label={t('cohort.caption')}>
        <table>
          <caption class="sr">{t('cohort.caption')}</caption>
          <thead>
            <tr>
              <th scope="col">{t('cohort.week')}</th>
              <th scope="col" class="number">{t('cohort.users')}</th>
              {Array.from({ length: columns }, (_, i) => (
                <th key={i} scope="col" class="number">{t('cohort.later', { n: i + 1 })}</th>
              ))}
            </tr>
          </thead>
          <tbody>
            {weeks.map((week) => (
              <tr key={week.start}>
                <th scope="row">{utcDay(week.start)}</th>
                <td class="number" data-label={t('cohort.users')}>
                  {week.users === null ? t('cohort.small') : exact(week.users)}
                </td>
                {Array.from({ length: columns }, (_, i) => <Cell key={i} week={week.returned[i]} />)}
              </tr>
            ))}
          </tbody>
        </table>
      </div>
      <p class="hint">{t('cohort.hint')} {isSmall && t('cohort.smallHint')}</p>
    </div>
  );
}

/** Cell is what came back in one week. Its shade is its part of the cohort. */
function Cell({ week }: { week: Return | undefined }) {
  if (!week) return <td />;

  const label = t('cohort.later', { n: week.week });
  if (week.users === null) return <td class="number" data-label={label}>{t('cohort.small')}</td>;
  return (
    <td class="number shade" data-label={label} style={{ '--shade': `${0.35 * (week.rate ?? 0)}%` }}>
      {week.rate === null ? (
        <span class="hint">–</span>
      ) : (
        <span>
          {percent(week.rate)}{' '}
          <span class="count">{exact(week.users)} {week.partial && t('cohort.partial')}</span>
        </span>
      )}
    </td>
  );
}
