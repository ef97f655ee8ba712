// How much of a month's quota is used.
import { Quota } from '../core/ui';

/** Used shows the use with a meter, or the text for a plan without a limit. */
export function Used(props: { used: number; quota: number | null; percent: number | null; label: string; text: string }) {
  const { used, quota, percent, label, text } = props;
  return quota === null ? <p>{text}</p> : <Quota used={used} quota={quota} share={percent ?? 0} label={label} />;
}
