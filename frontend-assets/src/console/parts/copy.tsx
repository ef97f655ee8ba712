// Texts to copy, and secrets that are shown once.
import { useLayoutEffect, useRef, useState } from 'preact/hooks';
import { t } from '../core/language';
import { announce } from '../core/store';

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

/** Secret shows and focuses a secret that cannot be read again. When it is done, the focus returns to what opened it. */
export function Secret({ text, label, hint, onDone }: { text: string; label: string; hint?: string; onDone(): void }) {
  const notice = useRef<HTMLDivElement>(null);
  const opener = useRef<Element | null>(null); // of the notice

  // Before the next answer of the server, which may replace the opener.
  useLayoutEffect(() => {
    const text = notice.current!.querySelector('pre')!;
    opener.current = document.activeElement;
    text.focus();

    // A dialog that closes moves the focus to its own opener.
    const moved = ({ target }: FocusEvent): void => {
      if (!opener.current?.closest('dialog') || target === text) return;
      opener.current = target as Element;
      text.focus();
    };
    addEventListener('focusin', moved);
    return () => removeEventListener('focusin', moved);
  }, []);

  const done = (): void => {
    const from = opener.current;
    const section = notice.current!.closest('section');
    onDone();

    // Once the page is rendered without the secret, unless the user has moved the focus meanwhile. The page may have
    // another button in the opener's place.
    setTimeout(() => {
      if (document.activeElement !== document.body) return;
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
        <strong>{label}</strong> {hint ?? t('secret.once')}
      </p>
      <Code text={text} label={label} />
      <button type="button" class="small" onClick={done}>{t('secret.done')}</button>
    </div>
  );
}
