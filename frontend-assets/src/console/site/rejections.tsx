// Rejected and ignored calls by day.
import { useQuery } from '../core/data';
import { exact, utcDay } from '../core/format';
import { t, type TextKey, translated } from '../core/language';
import { setQuery, useURL } from '../core/router';
import { Empty, Missing } from '../core/states';
import { Section, Table } from '../core/ui';
import { rejections, type RejectionFields } from '../operations';
import { byCode } from '../parts/codes';
import { SettingsPage } from '../parts/settings';

const periods = [7, 30, 90];

/** remedies maps a code to the page of a site where an owner resolves it, with its text. */
const remedies: Record<string, [page: string, text: TextKey]> = {
  unknown_event: ['events', 'events.title'],
  domain_not_allowed: ['settings', 'settings.title'],
  quota_exceeded: ['usage', 'usage.title'],
};

/** Rejections explains each code, then lists the counts by day. Ignored calls stand apart. */
export function Rejections({ id }: { id: string }) {
  const { searchParams } = useURL();
  const days = periods.find((n) => String(n) === searchParams.get('days')) ?? 7;
  const query = useQuery(rejections, { id, days });

  return (
    <SettingsPage id={id} query={query} title={t('rejections.title')}>
      {({ site }) => {
        if (!site) return <Missing />;
        const codes = byCode(site.rejections);
        const refused = site.rejections.filter((r) => !r.ignored && !r.recorded);
        const recorded = site.rejections.filter((r) => r.recorded);
        const ignored = site.rejections.filter((r) => r.ignored);
        return (
          <>
            <div class="filters">
              <label>
                {t('rejections.period')}{' '}
                <select value={String(days)} onChange={(e) => setQuery({ days: e.currentTarget.value })}>
                  {periods.map((n) => (
                    <option key={n} value={String(n)}>{t('rejections.days', { n })}</option>
                  ))}
                </select>
              </label>
            </div>
            {codes.length === 0 ? (
              <Empty>
                <h2>{t('rejections.none')}</h2>
                <p>{t('rejections.noneText')}</p>
              </Empty>
            ) : (
              <>
                <Section title={t('rejections.what')}>
                  <ul class="plain">
                    {codes.map(({ code, count, advice }) => (
                      <li key={code}>
                        <code>{code}</code> <strong>{t('rejections.calls', { n: count })}</strong>
                        <p>
                          {advice}{' '}
                          {remedies[code] && <a href={`/sites/${id}/${remedies[code][0]}`}>{t(remedies[code][1])}</a>}
                        </p>
                      </li>
                    ))}
                  </ul>
                </Section>
                {refused.length > 0 && <ByDay title={t('rejections.byDay')} list={refused} />}
                {recorded.length > 0 && <ByDay title={t('rejections.recorded')} list={recorded} />}
              </>
            )}
            {ignored.length > 0 && (
              <ByDay title={t('rejections.ignored')} hint={t('rejections.ignoredHint')} list={ignored} advice />
            )}
          </>
        );
      }}
    </SettingsPage>
  );
}

function ByDay({
  title,
  hint,
  list,
  advice,
}: {
  title: string;
  hint?: string;
  list: RejectionFields[];
  advice?: boolean;
}) {
  const head = [t('rejections.day'), t('rejections.endpoint'), t('rejections.code'), t('rejections.count')];
  return (
    <Section title={title} hint={hint}>
      <Table label={title} head={advice ? [...head, t('rejections.meaning')] : head}>
        {list.map((r) => (
          <tr key={r.day + r.endpoint + r.code}>
            <th scope="row">{utcDay(r.day)}</th>
            <td>{r.endpoint === 'collect' ? t('rejections.browser') : t('rejections.server')}</td>
            <td>
              <code>{r.code}</code>
            </td>
            <td class="number">{exact(r.count)}</td>
            {advice && <td>{translated('advice', r.code, r.advice)}</td>}
          </tr>
        ))}
      </Table>
    </Section>
  );
}
