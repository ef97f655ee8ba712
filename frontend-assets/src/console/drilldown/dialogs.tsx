// The dialogs that choose filters and segments.
import type { ComponentChildren } from 'preact';
import { useEffect, useId, useRef, useState } from 'preact/hooks';
import type { UserError } from '../core/api';
import { useQuery } from '../core/data';
import { Dialog } from '../core/dialog';
import { Field, Form, TextArea } from '../core/form';
import { t, type TextKey } from '../core/language';
import { link, reading } from '../core/source';
import { Failed, Loading } from '../core/states';
import { announce, mayEdit } from '../core/store';
import { coded, filterLabel, isPlain, noneText, oneText, valueText } from '../core/values';
import { addressOf, type Filter, selectionOf, type View, withFilter } from '../core/view';
import { leave, useBack } from '../parts/back';
import { countryCode, languageCode } from '../parts/countries';
import { Options } from '../parts/ranks';
import { typed } from '../parts/typed';
import { createSegment, panel, propertyNames, segments, sharedPanel, sharedPropertyNames, type ReportDimension, type ReportOperator } from '../operations';

interface Props {
  id: string;
  view: View;
  onClose(): void;
}

/** filterable lists the dimensions that a filter can have, as an owner looks for them. */
const filterable = (
  'PAGE ENTRY_PAGE EXIT_PAGE HOSTNAME CHANNEL SOURCE_GROUP SOURCE_NAME SOURCE REFERRER UTM_CAMPAIGN UTM_SOURCE UTM_MEDIUM UTM_CONTENT ' +
  'UTM_TERM AD_PLATFORM COUNTRY BROWSER SYSTEM DEVICE LANGUAGE SCREEN_WIDTH EVENT PROPERTY'
).split(' ') as ReportDimension[];

const operators: ReportOperator[] = ['IS', 'IS_NOT', 'CONTAINS', 'CONTAINS_NOT', 'MATCHES', 'MATCHES_NOT'];
const listed = 50; // values that the dialog offers

/** FilterDialog adds a filter. It offers the properties and events that exist, and the most frequent values. */
export function FilterDialog({ id, view, onClose }: Props) {
  const [dimension, setDimension] = useState<ReportDimension>('PAGE');
  const [operator, setOperator] = useState<string>('IS');
  const [property, setProperty] = useState('');
  const [event, setEvent] = useState('');
  useBack(onClose);

  const isProperty = dimension === 'PROPERTY';
  const isNone = operator.endsWith('NONE');
  const isCountry = dimension === 'COUNTRY' && operator.startsWith('IS');
  const of = { ...(isProperty && { property }), ...(isProperty && event && { event }) };

  // Operators of parts compare with the letters that a value shows, too.
  const storedOf = async (texts: string[]): Promise<string[]> => {
    if (isCountry) return texts.map(countryCode);
    if (operator.startsWith('CONTAINS')) return texts;
    if (dimension === 'LANGUAGE') return texts.map(languageCode);
    if (!(dimension in coded) && dimension !== 'EVENT') return typed(dimension, ...texts);

    const { report } = await reading(id, panel, sharedPanel)(listOf(view, { dimension }));
    const rows = report?.breakdown?.edges.map(({ node }) => node.value) ?? [];
    const isShown = (value: string, text: string): boolean => valueText(dimension, value).toLowerCase() === text.toLowerCase();
    return texts.map((text) => rows.find((value) => isShown(value, text)) ?? text);
  };
  const add = async ({ values = '' }: Record<string, string>): Promise<UserError[]> => {
    const texts = values.split('\n').flatMap((line) => line.trim() || []);
    const lines = await storedOf(texts);
    const unknown = isCountry && !isNone && lines.find((line) => !/^[A-Z]{2}$/.test(line));
    if (unknown) return [refusal('values', t('filter.noCountry', { name: unknown }))];

    const filter: Filter = {
      dimension,
      operator: operator.replace('_NONE', '') as ReportOperator,
      values: isNone ? [''] : lines,
      ...of,
    };
    if (!filter.values[0] && !isNone) return [refusal('values', t('filter.empty', { none: noneText(dimension) }))];

    const filters = withFilter(view.filters, filter);
    if (filters.length > mostFilters) return [refusal('', t('filter.tooMany'))];
    leave(addressOf(view, { filters }), onClose);
    return [];
  };

  const text = (name: string): string => t(`operator.${name}` as TextKey);
  const none = ['IS', 'IS_NOT'].map((name): [string, string] => [name + '_NONE', `${text(name)} ${noneText(dimension)}`]);
  const options = [...operators.map((name): [string, string] => [name, text(name)]), ...none];
  return (
    <Dialog title={t('filter.title')} onClose={onClose}>
      <Form submit={t('filter.add')} onSubmit={add} disabled={isProperty && !property}>
        <Choose
          first
          label={t('filter.dimension')}
          value={dimension}
          options={filterable.filter((name) => id || name !== 'PROPERTY' || !link.hidesRevenue).map((name) => [name, oneText(name)])}
          choose={(name) => setDimension(name as ReportDimension)}
        />
        {isProperty && <Names {...{ id, view, property, setProperty, event, setEvent }} />}
        <Choose label={t('filter.operator')} value={operator} options={options} choose={setOperator} />
        {!isNone && (
          <TextArea
            name="values"
            label={t('filter.values')}
            hint={operator.startsWith('MATCHES') ? t('filter.pattern') : isCountry && t('filter.countries')}
            rows={3}
          />
        )}
      </Form>
      {(!isProperty || property) && (
        <Frequent key={dimension + property + event} id={id} view={view} onClose={onClose} of={{ dimension, ...of }} />
      )}
    </Dialog>
  );
}

/** Choose is a field of a choice. The first one of a dialog has the focus. */
function Choose(props: { label: string; value: string; options: [string, string][]; choose(value: string): void; first?: boolean }) {
  const id = useId();
  const select = useRef<HTMLSelectElement>(null);
  useEffect(() => {
    if (props.first) select.current!.focus();
  }, []);
  return (
    <div class="field">
      <label for={id}>{props.label}</label>
      <select ref={select} id={id} value={props.value} onChange={(e) => props.choose(e.currentTarget.value)}><Options of={props.options} /></select>
    </div>
  );
}

/** Leaving is a link that shows another address in place of the dialog. */
function Leaving({ to, onClose, children }: { to: string; onClose(): void; children: ComponentChildren }) {
  const onClick = (e: MouseEvent): void => {
    e.preventDefault();
    leave(to, onClose);
  };
  return <a href={to} onClick={onClick}>{children}</a>;
}

/** listOf returns the variables that read the most frequent values of a dimension or property. */
const listOf = (view: View, of: Omit<Filter, 'operator' | 'values'>) => ({
  ...selectionOf(view),
  compare: null,
  by: of.dimension,
  property: of.property ?? null,
  event: of.event ?? null,
  first: listed,
});

/** refusal is an error of the form itself, at a field. */
const refusal = (field: string, message: string): UserError => ({ code: '', field: ['input', field], message });

/** Names chooses a property among those of the period, and one of the events that carried properties. */
function Names(props: {
  id: string;
  view: View;
  property: string;
  setProperty(name: string): void;
  event: string;
  setEvent(name: string): void;
}) {
  const { id, view, property, event } = props;
  const { period, filters } = selectionOf(view);
  const variables = { period, filters, event: event || null };
  const names = useQuery(reading(id, propertyNames, sharedPropertyNames), variables, true);
  const events = useQuery(reading(id, panel, sharedPanel), listOf(view, { dimension: 'EVENT' }));

  const list = names.data?.report?.propertyNames;
  const carrying = (events.data?.report?.breakdown?.edges ?? []).map(({ node: { value } }): [string, string] => [value, valueText('EVENT', value)]);
  useEffect(() => {
    if (list && !list.some(({ name }) => name === property)) props.setProperty(list[0]?.name ?? '');
  }, [list]);
  return (
    <>
      <Choose label={t('filter.event')} value={event} options={[['', t('filter.anyEvent')], ...carrying]} choose={props.setEvent} />
      <Choose label={t('filter.property')} value={property} options={(list ?? []).map(({ name }) => [name, name])} choose={props.setProperty} />
      {list?.length === 0 && <p class="hint">{t('property.none')}</p>}
    </>
  );
}

/** Frequent offers the most frequent values of a dimension or property. Each adds a filter at once. */
function Frequent({ id, view, onClose, of }: Props & { of: Omit<Filter, 'operator' | 'values'> }) {
  const query = useQuery(reading(id, panel, sharedPanel), listOf(view, of));
  const rows = query.data?.report?.breakdown?.edges.filter(({ node }) => !isPlain(of.dimension, node)) ?? [];
  if (rows.length === 0) return null;
  return (
    <>
      <h3>{t('filter.frequent')}</h3>
      <ul class="chips offered">
        {rows.map(({ node: { value } }) => (
          <li key={value}>
            <Leaving to={addressOf(view, { filters: withFilter(view.filters, { ...of, operator: 'IS', values: [value] }) })} onClose={onClose}>
              {valueText(of.dimension, value)}
            </Leaving>
          </li>
        ))}
      </ul>
    </>
  );
}

/** mostFilters is the largest number of filters that a report takes. */
export const mostFilters = 10;

/** joined returns the filters of a segment and those in use, each once. The former replace the latter if there were too many. */
function joined(used: Filter[], added: Filter[]): Filter[] {
  const known = added.map((filter) => Object.values(filterLabel(filter)).join(' '));
  const all = [...added, ...used.filter((filter) => !known.includes(Object.values(filterLabel(filter)).join(' ')))];
  return all.length > mostFilters ? added : all;
}

/** own returns the filters in use that no open segment has brought. */
const own = (view: View): Filter[] => (view.segment ? view.filters.slice(view.inSegment) : view.filters);

/** Segments lists the saved segments, and saves the current filters as another segment. */
export function Segments({ id, view, onClose }: Props) {
  const query = useQuery(segments, { id });
  useBack(onClose);
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
      <p class="hint">{t('segment.hint')} {own(view)[0] && t('segment.adds', { n: mostFilters })}</p>
      {query.error && <Failed failure={query.error} retry={query.reload} />}
      {!list && !query.error && <Loading />}
      {list?.length === 0 && <p class="none">{t('segment.none')}</p>}
      <ul class="rows">
        {list?.map((segment) => {
          const filters = segment.filters.map(({ property, event, ...rest }): Filter => ({ ...rest, ...(property && { property }), ...(event && { event }) }));
          return (
            <li key={segment.id}>
              <span>
                <Leaving to={addressOf(view, { filters: joined(own(view), filters), segment: segment.name, inSegment: filters.length })} onClose={onClose}>
                  {segment.name}
                </Leaving>
                <br />
                <span class="hint">{filters.map((f) => Object.values(filterLabel(f)).join(' ')).join(' · ')}</span>
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
