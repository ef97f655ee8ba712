// What channels are and want, as icons and texts.
import { exact } from '../core/format';
import { t } from '../core/language';
import type { AlertChannelFields, AlertChannelKind } from '../operations';

/** Owner is the site or the account of channels. */
export interface Owner {
  siteId?: string;
  accountId?: string;
  /** The time zone that quiet hours have first. */
  timeZone: string;
}

/** drawings are the icons of the kinds, as paths of 16 by 16. */
export const drawings: Record<AlertChannelKind, string> = {
  EMAIL: 'M1.5 3.5h13v9h-13zl6.5 5 6.5-5',
  SLACK: 'M6 2 5 14M11 2l-1 12M2.5 6H14M2 10h11.5',
  DISCORD: 'M2 3.5h12v8H8.5l-3 2.5v-2.5H2zm4 4h.01m4 0h.01',
  TEAMS: 'M5.5 7a2.2 2.2 0 1 0 0-4.4 2.2 2.2 0 0 0 0 4.4Zm-4 6.5a4 4 0 0 1 8 0M10.5 7a2 2 0 1 0 0-4m1 6.5a4 4 0 0 1 3 4',
  WEBHOOK: 'M6 2.5C4 2.5 4 3.5 4 5s0 3-2 3c2 0 2 1.5 2 3s0 2.5 2 2.5m4-11c2 0 2 1 2 2.5s0 3 2 3c-2 0-2 1.5-2 3s0 2.5-2 2.5',
};

export const KindIcon = ({ kind }: { kind: AlertChannelKind }) => (
  <svg viewBox="0 0 16 16" width="16" style={{ flex: 'none', verticalAlign: '-3px' }} aria-hidden="true">
    <path d={drawings[kind]} fill="none" stroke="currentColor" stroke-width="1.5" stroke-linecap="round" />
  </svg>
);

/** clock returns a minute of the day as an input of times has it, such as 22:00. */
export const clock = (minute: number): string =>
  [Math.floor(minute / 60), minute % 60].map((n) => String(n).padStart(2, '0')).join(':');

/** quietText writes quiet hours. */
export const quietText = ({ from, to, timeZone }: NonNullable<AlertChannelFields['quietHours']>): string =>
  `${clock(from)} – ${clock(to)} (${timeZone})`;

/** numbersOf returns the thresholds of a channel as texts. */
export const numbersOf = ({ spikeAbove, dropBelow }: AlertChannelFields): string[] => [
  ...(spikeAbove ? [t('alerts.above', { n: exact(spikeAbove) })] : []),
  ...(dropBelow ? [t('alerts.below', { n: exact(dropBelow) })] : []),
];

/** wishesOf returns what a channel wants as a text. */
export const wishesOf = (channel: AlertChannelFields): string =>
  [
    ...channel.events.map((event) => t(`alerts.event.${event}`)),
    ...(channel.weekly ? [t('alerts.event.WEEKLY')] : []),
    ...(channel.monthly ? [t('alerts.event.MONTHLY')] : []),
    ...numbersOf(channel),
  ].join(', ') || t('alerts.noEvents');
