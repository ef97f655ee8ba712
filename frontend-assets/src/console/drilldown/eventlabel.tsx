// The name of an event in lists.
import { t } from '../core/language';
import { eventName } from './names';

/** EventLabel writes an event: its readable name, if it has one, with the stored name, and a star for key events. */
export function EventLabel({ name, isKey }: { name: string; isKey: boolean }) {
  const readable = eventName(name);
  return (
    <>
      {isKey && <><span class="star" aria-hidden="true">★</span><span class="sr">{t('goal.key')} </span></>}
      {readable ? <>{readable} <span class="stored">{name}</span></> : name}
    </>
  );
}
