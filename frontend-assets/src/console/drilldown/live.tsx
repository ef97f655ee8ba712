// Who is on a site now.
import { usePolling, useQuery } from '../core/data';
import { dateTime, exact } from '../core/format';
import { t } from '../core/language';
import { SitePage } from '../core/site';
import { Empty, Missing } from '../core/states';
import { Section, share, Time } from '../core/ui';
import { isSource, valueText } from '../core/values';
import { live, liveFigures, type LiveFields } from '../operations';
import { Icon } from './icon';

/** LivePage shows the visitors of the last minutes. It reads them again every 2 seconds while it is visible. */
export function LivePage({ id }: { id: string }) {
  const query = useQuery(live, { id });
  usePolling(async () => {
    const site = query.data?.site;
    const next = site && (await liveFigures({ id }).catch(() => undefined))?.site;
    if (next) query.set({ ...query.data!, site: { ...site, ...next } });
    else await query.reload(); // which explains a failure
  }, 2_000);
  return (
    <SitePage id={id} query={query} title={t('live.title')}>
      {({ site }) => {
        if (!site) return <Missing />;
        const isQuiet = site.live.visitors === 0 && site.live.pageviews.every((n) => n === 0);
        if (!isQuiet) return <Figures live={site.live} />;
        return (
          <Empty>{t('live.none')} {site.lastHitAt && <>{t('site.lastHit')}: <Time at={site.lastHitAt} /></>}</Empty>
        );
      }}
    </SitePage>
  );
}

function Figures({ live }: { live: LiveFields }) {
  const most = Math.max(...live.pageviews, 1);
  const views = live.pageviews.reduce((sum, n) => sum + n, 0);
  const width = 100 / live.pageviews.length;
  return (
    <>
      <section class="card live">
        <p>
          <strong>{exact(live.visitors)}</strong> {t('live.visitors')}
          <br />
          <span class="hint">{t('live.hint')}</span>
        </p>
        <div>
          <p class="hint">{t('live.minutes')}: {exact(views)}</p>
          <svg viewBox="0 0 100 30" preserveAspectRatio="none" width="100%" height="72" aria-hidden="true">
            {live.pageviews.map((n, i) => (
              <rect key={i} x={i * width + 0.3} width={width - 0.6} y={30 - (29 * n) / most - 0.5} height={(29 * n) / most + 0.5} />
            ))}
          </svg>
        </div>
      </section>
      <div class="panels">
        <Top title={t('live.pages')} dimension="PAGE" rows={live.pages} />
        <Top title={t('live.sources')} dimension="SOURCE_NAME" rows={live.sourceNames} none={t('live.noSource')} />
      </div>
      <Section title={t('live.latest')}>
        {live.latest.length === 0 && <p class="none">{t('panel.none')}</p>}
        <ol class="rows">
          {live.latest.map((hit, i) => (
            <li key={hit.at + i}>
              <span>
                <strong>{hit.event ? valueText('EVENT', hit.event) : t('live.pageview')}</strong>{' '}
                <span class="path">{valueText('PAGE', hit.path)}</span>
                <span class="hint"> · {valueText('CHANNEL', hit.channel)}</span>
              </span>
              <span class="hint" title={dateTime(hit.at)}><Time at={hit.at} /></span>
            </li>
          ))}
        </ol>
      </Section>
    </>
  );
}

function Top(props: { title: string; dimension: string; rows: LiveFields['pages']; none?: string }) {
  const { dimension } = props;
  const most = Math.max(...props.rows.map((row) => row.visitors), 1);
  return (
    <section class="card panel" aria-label={props.title}>
      <h2>{props.title}</h2>
      {props.rows.length === 0 && <p class="none">{t('live.none')}</p>}
      <ol class="ranks">
        {props.rows.map(({ value, visitors }) => (
          <li key={value} style={share(visitors, most)}>
            <span title={value}>
              {isSource(dimension) && <Icon source={value} />}
              <span>{value ? valueText(dimension, value) : props.none}</span>
            </span>
            <span class="figure">{exact(visitors)}</span>
          </li>
        ))}
      </ol>
    </section>
  );
}
