// A line for each site of a long list.
import { compact, exact } from '../core/format';
import { t } from '../core/language';
import { Change } from '../core/metrics';
import { Mark, siteName } from '../core/site';
import { mayEdit } from '../core/store';
import { Table, Time } from '../core/ui';
import type { SitesData, SitesFigures } from '../operations';

type Site = NonNullable<SitesData['sites']>['edges'][number]['node'];
type Figures = SitesFigures['nodes'][number];

/** Lines has the figures of the cards in columns. */
export function Lines({ sites, figures }: { sites: Site[]; figures: Figures[] }) {
  const known = new Map(figures.map((one) => [one.id, one]));
  return (
    <section class="card">
      <Table
        label={t('nav.sites')}
        head={[t('sites.order.name'), t('sites.week'), t('live.visitors'), t('site.thisMonth'), t('site.lastHit')]}
      >
        {sites.map((site) => {
          const { report, live } = known.get(site.id) ?? {};
          const week = site.lastHitAt ? report?.totals.visitors : undefined;
          return (
            <tr key={site.id}>
              <th scope="row">
                <a href={'/sites/' + site.id}>{siteName(site)}</a>
                {site.name !== site.domain && <span class="hint"> {site.displayDomain}</span>}
                <Mark on={!!site.notice} />
              </th>
              <td class="number">
                {week !== undefined && [
                  <span title={exact(week)}>{compact(week)}</span>,
                  ' ',
                  <Change now={week} before={report?.totals.comparison?.visitors ?? null} />,
                ]}
              </td>
              <td class="number">{!!live?.visitors && <a href={`/sites/${site.id}/live`}>{exact(live.visitors)}</a>}</td>
              <td class="number">{!!site.usage.pageviews && exact(site.usage.pageviews)}</td>
              <td>
                {site.lastHitAt ? <Time at={site.lastHitAt} /> : mayEdit() && <a href={`/sites/${site.id}/install`}>{t('site.notInstalled')}</a>}
              </td>
            </tr>
          );
        })}
      </Table>
    </section>
  );
}
