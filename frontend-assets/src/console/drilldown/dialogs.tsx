// The dialogs that choose dates, filters and segments.
import { useId, useState } from 'preact/hooks';
import type { UserError } from '../core/api';
import { useQuery } from '../core/data';
import { Dialog } from '../core/dialog';
import { Field, Form, TextArea } from '../core/form';
import { t, type TextKey } from '../core/language';
import { filterable, filterLabel, oneText, valueText } from '../core/metrics';
import { go } from '../core/router';
import { reading } from '../core/source';
import { Failed, Loading } from '../core/states';
import { announce, mayEdit } from '../core/store';
import { addressOf, type Filter, selectionOf, type View, withFilter } from '../core/view';
import { createSegment, panel, segments, sharedPanel, type ReportDimension, type ReportOperator } from '../operations';

interface Props {
  id: string;
  view: View;
  onClose(): void;
}

const today = (): string => new Date().toISOString().slice(0, 10);

/** Dates chooses the first and the last day of a period. */
export function Dates({ view, onClose }: Omit<Props, 'id'>) {
  const month = new Date(Date.now() - 29 * 86_400_000).toISOString().slice(0, 10);
  const choose = async ({ from = '', to = '' }: Record<string, string>): Promise<void> => {
    const [first, last] = from <= to ? [from, to] : [to, from];
    go(addressOf(view, { from: first, to: last }));
    onClose();
  };
  return (
    <Dialog title={t('dates.title')} onClose={onClose}>
      <Form submit={t('dates.show')} onSubmit={choose}>
        <Field name="from" type="date" label={t('dates.from')} value={view.from || month} required autoFocus />
        <Field name="to" type="date" label={t('dates.to')} value={view.to || today()} required />
      </Form>
    </Dialog>
  );
}

const operators: ReportOperator[] = ['IS', 'IS_NOT', 'CONTAINS', 'CONTAINS_NOT', 'MATCHES', 'MATCHES_NOT'];

/** FilterDialog adds a filter. The most frequent values of the chosen dimension are offered. */
export function FilterDialog({ id, view, onClose }: Props) {
  const [dimension, setDimension] = useState<ReportDimension>('PAGE');
  const [operator, setOperator] = useState<ReportOperator>('IS');
  const [error, setError] = useState('');
  const ids = useId();

  const add = async (values: Record<string, string>): Promise<void> => {
    const lines = (values['values'] ?? '').split('\n').map((line) => line.trim());
    const filter: Filter = {
      dimension,
      operator,
      values: lines.filter((line, i) => line || (lines.length === 1 && i === 0)),
      ...(dimension === 'PROPERTY' && { property: values['property']!.trim() }),
      ...(dimension === 'PROPERTY' && values['event']?.trim() && { event: values['event'].trim() }),
    };

    const filters = withFilter(view.filters, filter);
    if (filters.length > 10) return setError(t('filter.tooMany'));
    go(addressOf(view, { filters }));
    onClose();
  };

  return (
    <Dialog title={t('filter.title')} onClose={onClose}>
      <Form submit={t('filter.add')} onSubmit={add}>
        <div class="field">
          <label for={ids + 'd'}>{t('filter.dimension')}</label>
          <select
            id={ids + 'd'}
            value={dimension}
            onChange={(e) => setDimension(e.currentTarget.value as ReportDimension)}
          >
            {filterable.map((name) => (
              <option key={name} value={name}>
                {oneText(name)}
              </option>
            ))}
          </select>
        </div>
        {dimension === 'PROPERTY' && (
          <>
            <Field name="property" label={t('filter.property')} required />
            <Field name="event" label={t('filter.event')} />
          </>
        )}
        <div class="field">
          <label for={ids + 'o'}>{t('filter.operator')}</label>
          <select id={ids + 'o'} value={operator} onChange={(e) => setOperator(e.currentTarget.value as ReportOperator)}>
            {operators.map((name) => (
              <option key={name} value={name}>
                {t(`operator.${name}` as TextKey)}
              </option>
            ))}
          </select>
        </div>
        <TextArea
          name="values"
          label={t('filter.values')}
          hint={operator.startsWith('MATCHES') ? t('filter.pattern') : undefined}
          rows={3}
        />
        {error && (
          <p class="error" role="alert">
            {error}
          </p>
        )}
      </Form>
      {dimension !== 'PROPERTY' && <Frequent key={dimension} id={id} view={view} onClose={onClose} dimension={dimension} />}
    </Dialog>
  );
}

/** Frequent offers the most frequent values of a dimension. Each adds a filter at once. */
function Frequent({ id, view, onClose, dimension }: Props & { dimension: ReportDimension }) {
  const query = useQuery(reading(id, panel, sharedPanel), { ...selectionOf(view), compare: null, by: dimension });
  const rows = query.data?.report?.breakdown?.edges ?? [];
  if (rows.length === 0) return null;
  return (
    <>
      <h3>{t('filter.frequent')}</h3>
      <ul class="chips">
        {rows.map(({ node: { value } }) => (
          <li key={value}>
            <a
              href={addressOf(view, {
                filters: withFilter(view.filters, { dimension, operator: 'IS', values: [value] }),
              })}
              onClick={() => setTimeout(onClose)}
            >
              {valueText(dimension, value)}
            </a>
          </li>
        ))}
      </ul>
    </>
  );
}

/** Segments lists the saved segments, and saves the current filters as another segment. */
export function Segments({ id, view, onClose }: Props) {
  const query = useQuery(segments, { id });
  const save = async ({ name = '' }: Record<string, string>): Promise<UserError[]> => {
    const payload = (await createSegment({ input: { siteId: id, name, filters: view.filters } })).createSegment;
    if (payload?.segment) {
      announce(t('segment.saved', { name }));
      onClose();
    }
    return payload?.userErrors ?? [];
  };

  const list = query.data?.site?.segments;
  return (
    <Dialog title={t('segment.title')} onClose={onClose}>
      <p class="hint">{t('segment.hint')}</p>
      {query.error && <Failed failure={query.error} retry={query.reload} />}
      {!list && !query.error && <Loading />}
      {list?.length === 0 && <p class="none">{t('segment.none')}</p>}
      <ul class="rows">
        {list?.map((segment) => {
          const filters: Filter[] = segment.filters.map(({ property, event, ...rest }) => ({
            ...rest,
            ...(property && { property }),
            ...(event && { event }),
          }));
          return (
            <li key={segment.id}>
              <span>
                <a href={addressOf(view, { filters })} onClick={() => setTimeout(onClose)}>
                  {segment.name}
                </a>
                <br />
                <span class="hint">
                  {filters.map((f) => Object.values(filterLabel(f)).join(' ')).join(' · ')}
                </span>
              </span>
            </li>
          );
        })}
      </ul>
      {mayEdit() &&
        (view.filters.length > 0 ? (
          <Form submit={t('segment.save')} onSubmit={save}>
            <Field name="name" label={t('segment.name')} required maxLength={100} />
          </Form>
        ) : (
          <p class="hint">{t('segment.noFilters')}</p>
        ))}
    </Dialog>
  );
}
