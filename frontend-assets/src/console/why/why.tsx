// The line below the chart that names the main causes of a difference, and their table. Messages of alerts have the
// same parts in the same order, see jobs/alerts/texts.
import { useState } from 'preact/hooks';
import { useQuery } from '../core/data';
import { exact, percent, signed } from '../core/format';
import { locale, t, type TextKey } from '../core/language';
import { metricText } from '../core/metrics';
import { reading } from '../core/source';
import { Table } from '../core/ui';
import { dimensionText, noneText, oneText, valueText } from '../core/values';
import { selectionOf, type View } from '../core/view';
import { causes, sharedCauses, type CauseFields, type CausesReport, type ChangeMetric, type ReportFields } from '../operations';

type Changes = NonNullable<CausesReport['changes']>;
type Circumstance = Changes['circumstances'][number];

/** metrics are the figures of the chart that are divided. In place of others it is the visits. */
const metrics: Record<string, ChangeMetric> = { visitors: 'VISITORS', pageviews: 'PAGEVIEWS', conversionRate: 'CONVERSIONS' };

const added = (n: number): string => (n < 0 ? '−' : '+') + exact(Math.abs(n));

/** nameOf writes a value. Values of some dimensions say nothing without its name. */
function nameOf({ by, value }: CauseFields['names'][number]): string {
  const noun = locale().startsWith('de') ? oneText(by) : oneText(by).toLowerCase(); // it stands within a sentence
  if (!value) return `${noun} ${noneText(by)}`;
  const text = valueText(by, value);
  return by === 'UTM_CAMPAIGN' ? t('why.campaign', { name: text }) : /ENTRY_PAGE|LANGUAGE|EVENT/.test(by) ? `${noun} ${text}` : text;
}

/** timesOf returns the function that writes the times of a circumstance: a day of notes and imports, else with hours. */
const timesOf = (timeZone: string) => {
  const day = new Intl.DateTimeFormat(locale(), { dateStyle: 'medium', timeZone });
  const hours = new Intl.DateTimeFormat(locale(), { dateStyle: 'medium', timeStyle: 'short', timeZone });
  return ({ kind, from, to }: Circumstance): string =>
    /NO_HITS|SETTING/.test(kind) ? hours.formatRange(new Date(from), new Date(to)) : day.formatRange(new Date(from), +new Date(to) - 1);
};

/** lineOf writes the difference and its main causes, each among the visits of the one before. */
function lineOf({ whole, chain, circumstances }: Changes, name: string, time: (c: Circumstance) => string): string {
  const difference = Number(whole.difference);
  const ratio = difference / Number(whole.before);
  const change = `${name} ${isFinite(ratio) ? signed(ratio) : added(difference)}`;

  // Up to a third is the share of the value in a difference of all alike.
  const minor = (chain ?? []).findIndex(({ share }) => (share ?? 0) <= 100 / 3);
  const causes = (chain ?? []).slice(0, minor < 0 ? undefined : minor);
  const main = causes.map(({ names, difference: d }) => `${names.slice(0, 3).map(nameOf).join(' / ')} ${added(Number(d))}`);
  const named = main.map((cause, i) => (i ? t('why.among', { cause }) : cause)).join(', ');
  const gap = circumstances.find(({ kind, after }) => kind === 'NO_HITS' && !Number(after) === difference < 0);
  // Nights of small sites have fewer hits, see changes.MainGap.
  const hits = Number(gap?.before) + Number(gap?.after);
  const parts = [named, hits >= Math.max(10, Math.abs(difference) / 10) && t('why.noHits', { time: time(gap!) })].filter(Boolean);
  return parts[0] ? t('why.because', { change, causes: parts.join('; ') }) : t('why.spread', { change });
}

/** Why shows the line, which opens the table. Its room is kept until the answer. */
export function Why({ id, view, report }: { id: string; view: View; report: ReportFields }) {
  const metric = view.metric in metrics ? view.metric : 'visits';
  const asked = metrics[metric] ?? 'VISITS';
  const [isOpen, setOpen] = useState(false);
  const { data } = useQuery(reading(id, causes, sharedCauses), { ...selectionOf(view), metric: asked });
  const changes = data?.report?.changes;
  if (!changes || !Number(changes.whole.difference)) return <p class="why" />;

  const time = timesOf(report.timeZone);
  return (
    <details class="hint why" onToggle={(e) => setOpen(e.currentTarget.open)}>
      <summary>{lineOf(changes, asked === 'CONVERSIONS' ? t('why.conversions') : metricText(metric), time)}</summary>
      {isOpen && <Divided changes={changes} time={time} />}
    </details>
  );
}

/** Divided is the table by dimension, and what else happened. */
function Divided({ changes, time }: { changes: Changes; time(c: Circumstance): string }) {
  const { whole, circumstances } = changes;
  // A value of all visits divides nothing.
  const divided = changes.dimensions.filter(({ values: [v] }) => v && (v.before !== whole.before || v.after !== whole.after));
  return (
    <>
      <Table label={t('why.title')} head={[t('why.value'), t('why.before'), t('why.now'), t('why.difference')]}>
        {divided.map(({ by, values, rest }) => (
          <>
            <tr key={by}><th scope="rowgroup" colSpan={4}><strong>{dimensionText(by)}</strong></th></tr>
            {values.map((value) => <Row key={value.names[0]!.value} name={valueText(by, value.names[0]!.value)} change={value} />)}
            {Number(rest.difference) !== 0 && <Row name={t('why.rest')} change={rest} />}
          </>
        ))}
      </Table>
      {circumstances[0] && <h3>{t('why.around')}</h3>}
      <ul class="rows">
        {circumstances.map((c) => (
          <li key={c.kind + c.from + c.name}>
            <span>
              {[t(`why.kind.${c.kind}` as TextKey), c.kind !== 'SETTING' && c.name, c.text].filter(Boolean).join(': ')}
              {c.after !== null && ' · ' + t('why.counts', { before: exact(Number(c.before)), after: exact(Number(c.after)) })}
            </span>
            <span>{time(c)}</span>
          </li>
        ))}
      </ul>
    </>
  );
}

/** Row is a value with its difference, and the share of the whole one, which is not 0. */
function Row({ name, change }: { name: string; change: CauseFields }) {
  return (
    <tr>
      <th scope="row">{name}</th>
      <td class="number">{exact(Number(change.before))}</td>
      <td class="number">{exact(Number(change.after))}</td>
      <td class="number">{added(Number(change.difference))} · {percent(change.share!)}</td>
    </tr>
  );
}
