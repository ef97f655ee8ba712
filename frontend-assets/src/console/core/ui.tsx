// Small parts that pages are made of.
import type { ComponentChildren } from 'preact';
import { useEffect, useId, useLayoutEffect, useRef, useState } from 'preact/hooks';
import { ago, dateTime, exact, percent } from './format';
import { t } from './language';
import { hasNavigated } from './router';
import { announce } from './store';

/** Title is the page's heading and the document's title. A new page moves the focus to it. */
export function Title({ text, children }: { text: string; children?: ComponentChildren }) {
  const heading = useRef<HTMLHeadingElement>(null);
  useEffect(() => {
    document.title = text + ' · Tallygate';
  }, [text]);

  useEffect(() => {
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
export function Section(props: {
  title: string;
  hint?: ComponentChildren;
  danger?: boolean;
  children: ComponentChildren;
}) {
  const id = useId();
  return (
    <section class={props.danger ? 'card danger' : 'card'} aria-labelledby={id}>
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

/** CopyButton copies a text and announces it. */
export function CopyButton({ text, label }: { text: string; label?: string }) {
  const [copied, setCopied] = useState(false);
  const copy = async (): Promise<void> => {
    try {
      await navigator.clipboard.writeText(text);
      setCopied(true);
      announce(t('copy.done'));
      setTimeout(() => setCopied(false), 2000);
    } catch {
      announce(t('copy.failed'));
    }
  };
  return (
    <button type="button" class="small" onClick={copy} aria-label={label && `${t('copy')}: ${label}`}>
      {copied ? t('copy.done') : t('copy')}
    </button>
  );
}

/** Code shows a text to copy. The block can be scrolled with the keyboard. */
export function Code({ text, label }: { text: string; label: string }) {
  return (
    <div class="code">
      <pre tabIndex={0} role="group" aria-label={label}>
        <code>{text}</code>
      </pre>
      <CopyButton text={text} label={label} />
    </div>
  );
}

/** Secret shows a secret that cannot be read again. When it is done, the focus returns to what opened it. */
export function Secret({ text, label, onDone }: { text: string; label: string; onDone(): void }) {
  const notice = useRef<HTMLDivElement>(null);
  const opener = useRef<Element | null>(null); // of the notice
  useEffect(() => {
    opener.current = document.activeElement;

    // A dialog that closes moves the focus to its own opener.
    const moved = ({ target }: FocusEvent): void => {
      if (opener.current?.closest('dialog')) opener.current = target as Element;
    };
    addEventListener('focusin', moved);
    return () => removeEventListener('focusin', moved);
  }, []);

  const done = (): void => {
    const from = opener.current;
    const section = notice.current!.closest('section');
    onDone();

    // Once the page is rendered without the secret. It may have another button in the opener's place.
    setTimeout(() => {
      const buttons = [...document.querySelectorAll<HTMLElement>('main button:enabled')];
      const same = buttons.find((button) => button.textContent === from?.textContent);
      const kept = from?.isConnected && from !== document.body ? from : same;
      const target = kept ?? section?.querySelector('button:enabled') ?? document.querySelector('h1');
      (target as HTMLElement | null)?.focus();
    });
  };

  return (
    <div ref={notice} class="notice good" role="status">
      <p>
        <strong>{label}</strong> {t('secret.once')}
      </p>
      <Code text={text} label={label} />
      <button type="button" class="small" onClick={done}>
        {t('secret.done')}
      </button>
    </div>
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

/** Tabs are links to parts of one thing; the current one is marked. */
export function Tabs({ label, items }: { label: string; items: [address: string, text: string][] }) {
  const nav = useRef<HTMLElement>(null);

  // On narrow screens the current one may be out of view.
  useEffect(
    () => nav.current!.querySelector('[aria-current]')?.scrollIntoView({ inline: 'center', block: 'nearest' }),
    [],
  );

  return (
    <nav ref={nav} class="tabs" aria-label={label}>
      {items.map(([address, text]) => (
        <a key={address} href={address} aria-current={location.pathname === address ? 'page' : undefined}>
          {text}
        </a>
      ))}
    </nav>
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
