// The dialogs that choose the days of a period, in a calendar or by typing them.
import { useRef, useState } from 'preact/hooks';
import type { UserError } from '../core/api';
import { Dialog } from '../core/dialog';
import { Field, Form } from '../core/form';
import { utcDay } from '../core/format';
import { t } from '../core/language';
import { addressOf, type View } from '../core/view';
import type { ReportFields } from '../operations';
import { leave, useBack } from '../parts/back';
import { after, Calendar, distance } from './calendar';

interface Props {
  view: View;
  report: ReportFields | null;
  onClose(): void;
}

/** today returns the site's day of the report. The clock and the time zone of this browser may be others. */
const today = (report: ReportFields | null): string =>
  new Intl.DateTimeFormat('en-CA', {
    year: 'numeric',
    month: '2-digit',
    day: '2-digit',
    ...(report && { timeZone: report.timeZone }),
  }).format(report ? new Date(report.asOf) : new Date());

/** mostDays is the length of the longest period that the server accepts. */
const mostDays = 5 * 366;

/** isDay reports whether a text is a whole date. A field has none while it is being typed. */
const isDay = (text: string): boolean => /^\d{4}-\d\d-\d\d$/.test(text);

/** Dates chooses the first and the last day of a period. */
export function Dates({ view, report, onClose }: Props) {
  const last = today(report);
  const isKept = view.from || (report && view.period !== 'all');
  const start = view.from || (isKept ? report!.from : after(last, -29));
  const [days, setDays] = useState({ from: start, to: view.to || (isKept ? report!.to : last) });
  const choose = async ({ from = '', to = '' }: Record<string, string>): Promise<UserError[]> => {
    const [first, last] = from <= to ? [from, to] : [to, from];
    if (distance(first, last) > mostDays)
      return [{ field: ['from'], code: '', message: t('dates.tooLong', { all: t('period.all') }) }];

    leave(addressOf(view, { from: first, to: last, period: '' }), onClose);
    return [];
  };
  const fields = useRef<HTMLDivElement>(null);
  useBack(onClose);
  return (
    <Dialog title={t('dates.title')} onClose={onClose} wide>
      <Form submit={t('dates.show')} onSubmit={choose}>
        <div class="dates" ref={fields} onInput={() => setDays(typed(fields.current!, days))}>
          <Field name="from" type="date" label={t('dates.from')} value={days.from} required autoFocus />
          <Field name="to" type="date" label={t('dates.to')} value={days.to} required />
        </div>
        <Calendar
          {...days}
          today={last}
          isRange
          pick={(from, to) => {
            setDays({ from, to });
            fill(fields.current!, { from, to });
          }}
        />
        <p class="hint">
          {report && t('dates.today', { day: utcDay(last), zone: report.timeZone })} {t('dates.limit')}
        </p>
      </Form>
    </Dialog>
  );
}

/** ComparedDates chooses the first day of the period to compare with, which has the length of the report's period. */
export function ComparedDates({ view, report, onClose }: Props) {
  const last = today(report);
  const [from, setFrom] = useState(report?.comparedFrom ?? after(last, -365));
  const length = report ? distance(report.from, report.to) : 0;
  const choose = async ({ from = '' }: Record<string, string>): Promise<void> => {
    leave(addressOf(view, { compare: from, dates: true }), onClose);
  };
  const fields = useRef<HTMLDivElement>(null);
  useBack(onClose);
  return (
    <Dialog title={t('compare.label')} onClose={onClose} wide>
      <Form submit={t('dates.show')} onSubmit={choose}>
        <div class="dates" ref={fields} onInput={() => setFrom(typed(fields.current!, { from }).from)}>
          <Field name="from" type="date" label={t('dates.from')} value={from} required autoFocus />
        </div>
        <Calendar
          from={from}
          to={after(from, length)}
          today={last}
          pick={(day) => {
            setFrom(day);
            fill(fields.current!, { from: day });
          }}
        />
        <p class="hint">{t('dates.sameLength')}</p>
      </Form>
    </Dialog>
  );
}

/** typed returns the dates of the fields. A date that is not whole yet does not replace the former one. */
function typed<T extends Record<string, string>>(fields: HTMLElement, before: T): T {
  const dates = [...fields.querySelectorAll('input')].filter(({ value }) => isDay(value));
  return { ...before, ...Object.fromEntries(dates.map(({ name, value }) => [name, value])) };
}

/** fill writes the dates into the fields, which belong to the form. */
function fill(fields: HTMLElement, dates: Record<string, string>): void {
  for (const input of fields.querySelectorAll('input')) input.value = dates[input.name]!;
}
