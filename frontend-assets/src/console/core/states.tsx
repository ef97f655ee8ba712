// States that a page shows instead of its content: loading, failing, throttled, forbidden, missing,
// empty.
import type { ComponentChildren } from 'preact';
import { useEffect, useState } from 'preact/hooks';
import type { Failure } from './api';
import type { Query } from './data';
import { t, translated } from './language';
import { Title } from './ui';

/**
 * Loaded shows the content once there is data, and otherwise a placeholder or the failure. A title
 * is the page's heading until then, if the content has its own.
 */
export function Loaded<D>(props: {
  query: Query<D>;
  title?: string;
  placeholder?: ComponentChildren;
  children: (data: D) => ComponentChildren;
}) {
  const { query, title, children } = props;
  const { data, error, reload } = query;
  return (
    <>
      {title && data === undefined && <Title text={title} />}
      {error && <Failed failure={error} retry={reload} />}
      {data !== undefined ? children(data) : !error && (props.placeholder ?? <Loading />)}
    </>
  );
}

/** Loading appears after a short delay, so that fast answers do not flicker. */
export function Loading() {
  return (
    <div class="loading" role="status">
      <span class="sr">{t('state.loading')}</span>
      <i />
      <i />
      <i />
    </div>
  );
}

/** Skeleton has the shape of a report. It fills the window, so that nothing below moves when the report appears. */
export function Skeleton() {
  return (
    <div class="skeleton">
      <Loading />
      <div class="panels">
        <i />
        <i />
        <i />
        <i />
      </div>
    </div>
  );
}

/** useCountdown returns the seconds that are left of a number of seconds, which starts with each new key. */
export function useCountdown(seconds: number, key: unknown): number {
  const [left, setLeft] = useState(seconds);
  useEffect(() => {
    const end = Date.now() + seconds * 1000;
    const update = (): void => setLeft(Math.max(0, Math.ceil((end - Date.now()) / 1000)));
    update();
    const timer = setInterval(update, 250);
    return () => clearInterval(timer);
  }, [seconds, key]);
  return left;
}

/** failureText explains a failure in the user's language. */
export function failureText(failure: Failure): string {
  const text = translated('failure', failure.code, failure.message);
  return failure.requestId ? `${text} (${failure.requestId})` : text;
}

/**
 * Failed explains a failure in one line. A throttled call is made again when its time has passed, and the server is
 * called again every few seconds while it cannot be reached.
 */
export function Failed({ failure, retry }: { failure: Failure; retry: () => void }) {
  const { code, retryAfter } = failure;
  const away = /OFFLINE|UNAVAILABLE/.test(code);
  const left = useCountdown(retryAfter ?? (away ? 5 : 0), failure);
  const waits = away || retryAfter !== undefined;

  useEffect(() => {
    const timer = waits && left === 0 && setTimeout(retry, 300);
    return () => clearTimeout(timer || undefined);
  }, [failure, left === 0]);

  if (/FORBIDDEN|INVALID_ARGUMENT|GROUP_TOO_SMALL/.test(code)) return <p class="notice">{failureText(failure)}</p>;
  return (
    <p class={waits ? 'notice' : 'notice bad'}>
      <span role="alert">{failureText(failure)}</span>{' '}
      <button type="button" class="link" onClick={retry} disabled={left > 0 && !away}>
        {left > 0 ? t('state.retryIn', { n: left }) : t('state.retry')}
      </button>
    </p>
  );
}

/** Missing is the page of an unknown address or of an object that does not exist in this account. */
export function Missing() {
  return (
    <>
      <Title text={t('missing.title')} />
      <p>{t('missing.text')}</p>
      <p>
        <a href="/">{t('nav.sites')}</a>
      </p>
    </>
  );
}

/** Empty says that a list has no entries yet, and how to begin. */
export function Empty({ children }: { children: ComponentChildren }) {
  return <div class="empty">{children}</div>;
}
