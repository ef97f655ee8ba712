// Small parts that pages are made of.
import type { ComponentChildren } from 'preact';
import { useEffect, useId, useLayoutEffect, useRef } from 'preact/hooks';
import { ago, dateTime, exact, percent } from './format';
import { t } from './language';
import { hasNavigated } from './router';

/** Title is the page's heading and the document's title. A new page moves the focus to it. */
export function Title({ text, children }: { text: string; children?: ComponentChildren }) {
  const heading = useRef<HTMLHeadingElement>(null);
  useEffect(() => {
    document.title = text + ' · Tallygate';
  }, [text]);

  // With the first paint, as a key may follow it at once.
  useLayoutEffect(() => {
    // The first page keeps the browser's focus, and a form that asks for it has precedence.
    if (hasNavigated() && !document.activeElement?.matches('input')) heading.current!.focus();
  }, []);

  return (
    <div class="title">
      <h1 ref={heading} tabIndex={-1}>
        {text}
      </h1>
      {children}
    </div>
  );
}

/** Section is a titled card. */
export function Section(props: { title: string; hint?: ComponentChildren; children: ComponentChildren }) {
  const id = useId();
  return (
    <section class="card" aria-labelledby={id}>
      <h2 id={id}>{props.title}</h2>
      {props.hint && <p class="hint">{props.hint}</p>}
      {props.children}
    </section>
  );
}

/** Time writes how long ago a time was, with the exact time as its title. */
export function Time({ at }: { at: string }) {
  return (
    <time dateTime={at} title={dateTime(at)}>
      {ago(at)}
    </time>
  );
}

/** Quota is a meter of a monthly quota with its numbers. */
export function Quota({ used, quota, share, label }: { used: number; quota: number; share: number; label: string }) {
  const level = share >= 100 ? 'full' : share >= 80 ? 'high' : '';
  return (
    <div class={'quota ' + level}>
      <meter aria-label={label} min={0} max={100} value={Math.min(share, 100)} />
      <span>{t('quota.of', { used: exact(used), quota: exact(quota), share: percent(share) })}</span>
    </div>
  );
}

/** share returns the style of a bar. Its length is a share of the largest bar. */
export const share = (value: number, most: number): Record<string, string> => ({
  '--share': `${(100 * value) / Math.max(most, 1)}%`,
});

/** Table is a table with headers. On narrow screens each cell follows its header's text, and rows stand apart. */
export function Table({ label, head, children }: { label: string; head: string[]; children: ComponentChildren }) {
  const body = useRef<HTMLTableSectionElement>(null);
  useLayoutEffect(() => {
    for (const row of body.current!.rows) {
      for (const [i, cell] of [...row.cells].entries()) cell.dataset['label'] = head[i] ?? '';
    }
  });

  return (
    <div class="scroll" tabIndex={0} role="group" aria-label={label}>
      <table>
        <thead>
          <tr>
            {head.map((text) => (
              <th key={text} scope="col">
                {text}
              </th>
            ))}
          </tr>
        </thead>
        <tbody ref={body}>{children}</tbody>
      </table>
    </div>
  );
}
