// The figures of the chart's point under the pointer, and the notes of its days.
import { useEffect, useLayoutEffect, useRef, useState } from 'preact/hooks';
import type { UserError } from '../core/api';
import { Action, Dialog } from '../core/dialog';
import { Field, Form, type Values } from '../core/form';
import { utcDay } from '../core/format';
import { locale, t } from '../core/language';
import { Change, metricText, metricValue } from '../core/metrics';
import { announce, mayEdit } from '../core/store';
import type { Metric } from '../core/view';
import { createAnnotation, deleteAnnotation, updateAnnotation, type ReportFields } from '../operations';
import { changes } from '../parts/changes';
import { type Note, type Place, rounded, type Series } from '../report/series';

interface Props {
  id: string;
  report: ReportFields;
  series: Series;
  metric: Metric;
  place: Place;
  /** Loads the report again. */
  reload(): Promise<void>;
}

const gap = 14; // between the point and the tip, in pixels

/** Tip shows the figures of a point. A pinned one has buttons for its notes, if the user may change them. */
export function Tip({ id, report, series, metric, place, reload }: Props) {
  const { at, pinned, byKey, held, close } = place;
  const tip = useRef<HTMLDivElement>(null);
  const [editing, edit] = useState<Partial<Note>>();
  const isEditor = id !== '' && mayEdit();
  const notes = series.notes(at);
  const point = series.points[at]!;

  // Left or right of the point, where there is room, or else at the edge that is farther from it. Always within the drawing.
  useLayoutEffect(() => {
    const { offsetWidth, offsetHeight, parentElement, style } = tip.current!;
    const { clientWidth, clientHeight } = parentElement!;
    const right = place.x + gap;
    const left = right + offsetWidth <= clientWidth ? right : place.x - gap - offsetWidth;
    const lowest = clientHeight - offsetHeight;
    const centred = Math.min(place.y - offsetHeight / 2, lowest);
    const top = left >= 0 ? centred : place.y > clientHeight / 2 ? 0 : lowest;
    style.translate = `${Math.max(0, left)}px ${Math.max(0, top)}px`;
  });
  useLayoutEffect(() => {
    if (!pinned || !byKey) return;
    if (!isEditor || notes[0]) return tip.current!.focus();

    // Where there are no notes yet, Enter adds one, once the key is up: it would reach the form.
    if (!held) edit({ day: series.day(point) });
  }, [pinned, byKey, held]);
  useEffect(() => {
    const leave = ({ target }: Event): void => {
      const inside = target instanceof Element && target.closest('.drawing, dialog');
      if (!inside) close();
    };
    addEventListener('pointerdown', leave);
    return () => removeEventListener('pointerdown', leave);
  }, []);

  const onKeyDown = (event: KeyboardEvent): void => {
    if (event.key !== 'Escape' || editing) return;
    event.stopPropagation();
    (tip.current!.previousElementSibling as HTMLElement).focus();
    close();
  };
  const after = async (payload: { userErrors: UserError[] } | null, done: string): Promise<UserError[]> => {
    const errors = payload?.userErrors ?? [];
    if (errors.length === 0) {
      await reload();
      announce(done);
    }
    return errors;
  };

  const closed = (): void => {
    edit(undefined);
    if (byKey && !notes[0]) close();
  };

  return (
    <div
      ref={tip}
      class={pinned ? 'tip pinned' : 'tip'}
      role="group"
      aria-label={metricText(metric)}
      aria-hidden={!pinned}
      tabIndex={-1}
      onKeyDown={onKeyDown}
    >
      <Figures series={series} metric={metric} at={at} zone={report.timeZone} />
      {notes.map((note) => (
        <div key={note.id} class="note">
          <p>
            {/WEEK|MONTH/.test(series.interval) && <span class="hint">{utcDay(note.day)} </span>}
            {note.text}
          </p>
          {pinned && isEditor && (
            <p class="inline">
              <button type="button" class="link" aria-label={t('note.changeNamed', { name: note.text })} onClick={() => edit(note)}>
                {t('note.change')}
              </button>
              <Action
                label={t('note.deleteNamed', { name: note.text })}
                run={async () => {
                  const input = { annotationId: note.id };
                  return after((await deleteAnnotation({ input })).deleteAnnotation, t('note.deleted'));
                }}
              >
                {t('note.delete')}
              </Action>
            </p>
          )}
        </div>
      ))}
      {isEditor &&
        (pinned ? (
          <button type="button" class="small" onClick={() => edit({ day: series.day(point) })}>
            {t('note.add')}
          </button>
        ) : (
          <p class="hint">{t('note.click')}</p>
        ))}
      {editing && <NoteDialog {...{ id, report, note: editing, after }} onClose={closed} />}
    </div>
  );
}

/** dayFormat is short, because the tip covers the chart. */
const dayFormat = { weekday: 'short', day: 'numeric', month: 'short', year: 'numeric' } as const;

/** Figures are the figures of a point in both periods, each with its date, and the change. */
function Figures({ series, metric, at, zone }: { series: Series; metric: Metric; at: number; zone: string }) {
  const point = series.points[at]!;
  const value = series.value(point);
  const before = series.compared(point);
  const day = new Intl.DateTimeFormat(locale(), { ...dayFormat, timeZone: zone });
  const average = (value: number | null) => series.average && (
    <div class="average">
      <dt>{series.average}</dt>
      <dd>{metricValue(metric, rounded(value))}</dd>
    </div>
  );
  const write = (time: string): string => (series.interval === 'DAY' ? day.format(new Date(time)) : series.long(time));
  return (
    <>
      <p class="head">
        <span>{metricText(metric)}</span>
        {point.comparedStart && <Change metric={metric} now={value} before={before} />}
      </p>
      <dl>
        <div class="now-line">
          <dt>
            {write(point.start)}
            {point.partial && ` (${t('chart.partial')})`}
          </dt>
          <dd><strong>{metricValue(metric, value)}</strong></dd>
        </div>
        {average(series.drawn(point))}
        {point.comparedStart && (
          <div class="then-line">
            <dt>{write(point.comparedStart)}</dt>
            <dd>{metricValue(metric, before)}</dd>
          </div>
        )}
        {point.comparedStart && average(series.drawnCompared(point))}
      </dl>
    </>
  );
}

/** NoteDialog adds a note, or changes one that has an id. */
function NoteDialog(props: {
  id: string;
  report: ReportFields;
  note: Partial<Note>;
  after(payload: { userErrors: UserError[] } | null, done: string): Promise<UserError[]>;
  onClose(): void;
}) {
  const { id, note, after, onClose } = props;
  const save = async ({ day = '', text = '' }: Values, form: HTMLFormElement): Promise<UserError[]> => {
    const payload = note.id
      ? (await updateAnnotation({ input: { annotationId: note.id, ...changes(form, { day, text }) } })).updateAnnotation
      : (await createAnnotation({ input: { siteId: id, day, text } })).createAnnotation;
    const errors = await after(payload, t('note.saved'));
    if (errors.length === 0) onClose();
    return errors;
  };
  return (
    <Dialog title={t(note.id ? 'note.edit' : 'note.add')} onClose={onClose}>
      <Form submit={t('save')} onSubmit={save}>
        <Field name="text" label={t('note.text')} value={note.text ?? ''} maxLength={500} required autoFocus />
        <Field
          name="day"
          type="date"
          label={t('note.day')}
          hint={t('report.zone', { zone: props.report.timeZone })}
          value={note.day!}
          required
        />
      </Form>
    </Dialog>
  );
}
