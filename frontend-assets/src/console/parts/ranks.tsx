// Parts of tables that are drawn as bars, of lists of facts, and of choices.
import type { ComponentChildren } from 'preact';
import type { Query } from '../core/data';
import { exact } from '../core/format';
import { Change } from '../core/metrics';
import { Failed, Loading } from '../core/states';
import type { Filter } from '../core/view';
import type { ReportDimension } from '../operations';

/** pending returns what stands in place of an answer that is missing or has failed, and null once there is one. */
export function pending(query: Query<unknown>) {
  const failure = query.error ?? query.part;
  if (failure) return <Failed failure={failure} retry={query.reload} />;
  return query.data ? null : <Loading />;
}

/** valueFilter returns a filter that keeps the visits with a value of a row, of a property of an event if it has one. */
export const valueFilter = (dimension: string, value: string, property = '', event = ''): Filter => ({
  dimension: dimension as ReportDimension,
  ...(property && { property }),
  ...(event && { event }),
  operator: 'IS',
  values: [value],
});

/** Head is the row of the columns' names. */
export const Head = ({ names, hidden }: { names: string[]; hidden?: boolean }) => (
  <p class={hidden ? 'sr' : 'head'} role="row">
    {names.map((name) => <span key={name} role="columnheader">{name}</span>)}
  </p>
);

/** Figure is a cell with a number. */
export const Figure = ({ children }: { children: ComponentChildren }) => <span role="cell" class="figure">{children}</span>;

/** Compared is a number of visitors, and its change since an earlier one. */
export const Compared = ({ now, before }: { now: number; before: number | null | undefined }) => (
  <Figure>
    {exact(now)}
    {before != null && <> <span class="delta"><Change now={now} before={before} /></span></>}
  </Figure>
);

/** Facts are the entries of a list of names and values. */
export const Facts = ({ facts }: { facts: [string, string][] }) => (
  <>
    {facts.map(([name, value]) => (
      <div key={name}>
        <dt>{name}</dt>
        <dd>{value}</dd>
      </div>
    ))}
  </>
);

/** Options are the entries of a choice. */
export const Options = ({ of }: { of: [value: string, text: string][] }) => (
  <>{of.map(([value, text]) => <option key={value} value={value}>{text}</option>)}</>
);

/** Chooser is the choice of what a panel shows. */
export const Chooser = (props: { label: string; value: string; options: [string, string][]; choose(value: string): void }) => (
  <p class="choice">
    <label>
      {props.label}{' '}
      <select value={props.value} onChange={(e) => props.choose(e.currentTarget.value)}><Options of={props.options} /></select>
    </label>
  </p>
);
