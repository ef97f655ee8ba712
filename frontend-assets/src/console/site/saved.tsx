// Objects that an owner saves for a site's reports: annotations, segments and funnels.
import { useState } from 'preact/hooks';
import type { UserError } from '../core/api';
import { type Query, useQuery } from '../core/data';
import { Action, Confirm } from '../core/dialog';
import { Field, Form, type Values } from '../core/form';
import { utcDay } from '../core/format';
import { t } from '../core/language';
import { Empty, Missing } from '../core/states';
import { announce, mayEdit } from '../core/store';
import { Section, Table } from '../core/ui';
import { filterLabel } from '../core/values';
import type { Filter } from '../core/view';
import {
  createAnnotation,
  deleteAnnotation,
  deleteSegment,
  saved,
  updateAnnotation,
  updateSegment,
  type SavedData,
} from '../operations';
import { changes } from '../parts/changes';
import { SettingsPage } from '../parts/settings';
import { Funnels } from './funnels';
import type { SavedProps } from './savedprops';

/** Saved shows and changes the saved objects of a site. */
export function Saved({ id }: { id: string }) {
  const query = useQuery(saved, { id, after: null });
  const edit = mayEdit();
  const after: SavedProps['after'] = async (payload, done = t('saved')) => {
    const errors = payload?.userErrors ?? [];
    if (errors.length === 0) {
      await query.reload();
      announce(done);
    }
    return errors;
  };

  return (
    <SettingsPage id={id} query={query} title={t('saved.title')}>
      {(data) => {
        const { site } = data;
        if (!site) return <Missing />;
        const props = { site, edit, after };
        return (
          <>
            {!edit && <p class="notice">{t('readOnly')}</p>}
            <Annotations {...props} query={query} data={data} />
            <Funnels {...props} />
            <Segments {...props} />
          </>
        );
      }}
    </SettingsPage>
  );
}

/** today returns the current day of this browser's time zone. */
const today = (): string => new Date().toLocaleDateString('sv');

function Annotations({ site, edit, after, query, data }: SavedProps & { query: Query<SavedData>; data: SavedData }) {
  const [changing, setChanging] = useState('');
  const list = site.annotations?.edges.map((edge) => edge.node) ?? [];

  const more = async (): Promise<void> => {
    const next = (await saved({ id: site.id, after: site.annotations!.pageInfo.endCursor })).site?.annotations;
    if (!next) return;
    const edges = [...site.annotations!.edges, ...next.edges];
    query.set({ ...data, site: { ...site, annotations: { ...next, edges } } });
  };
  const add = async ({ day = '', text = '' }: Values): Promise<UserError[]> =>
    after((await createAnnotation({ input: { siteId: site.id, day, text } })).createAnnotation);
  const change = async ({ day = '', text = '' }: Values, form: HTMLFormElement): Promise<UserError[]> => {
    const input = { annotationId: changing, ...changes(form, { day, text }) };
    const errors = await after((await updateAnnotation({ input })).updateAnnotation);
    if (errors.length === 0) setChanging('');
    return errors;
  };
  const fields = (day: string, text: string) => (
    <>
      <Field name="day" type="date" label={t('annotation.day')} value={day} required />
      <Field name="text" label={t('annotation.text')} value={text} maxLength={500} required autoFocus={text !== ''} />
    </>
  );

  return (
    <Section title={t('annotation.title')} hint={t('annotation.hint', { zone: site.timeZone })}>
      {list.length === 0 && <Empty>{t('annotation.none')}</Empty>}
      <ul class="rows">
        {list.map((a) =>
          a.id === changing ? (
            <li key={a.id}>
              <Form
                submit={t('save')}
                class="row"
                onSubmit={change}
                label={t('annotation.change')}
                after={
                  <button type="button" onClick={() => setChanging('')}>{t('close')}</button>
                }
              >
                {fields(a.day, a.text)}
              </Form>
            </li>
          ) : (
            <li key={a.id}>
              <span>
                <span class="hint">{utcDay(a.day)}</span> {a.text}
              </span>
              {edit && (
                <span class="inline">
                  <button
                    type="button"
                    class="small"
                    aria-label={t('saved.changeNamed', { name: a.text })}
                    onClick={() => setChanging(a.id)}
                  >
                    {t('saved.change')}
                  </button>
                  <Action
                    label={t('saved.deleteNamed', { name: a.text })}
                    run={async () =>
                      after(
                        (await deleteAnnotation({ input: { annotationId: a.id } })).deleteAnnotation,
                        t('saved.deleted', { name: a.text }),
                      )
                    }
                  >
                    {t('saved.delete')}
                  </Action>
                </span>
              )}
            </li>
          ),
        )}
      </ul>
      {site.annotations?.pageInfo.hasNextPage && <Action run={more}>{t('list.more')}</Action>}
      {edit && !changing && (
        <Form key={list[0]?.id + String(list.length)} submit={t('annotation.add')} class="row" onSubmit={add} label={t('annotation.add')}>
          {fields(today(), '')}
        </Form>
      )}
    </Section>
  );
}

function Segments({ site, edit, after }: SavedProps) {
  const [renaming, setRenaming] = useState('');
  const rename = async ({ name = '' }: Values): Promise<UserError[]> => {
    const errors = await after((await updateSegment({ input: { segmentId: renaming, name } })).updateSegment);
    if (errors.length === 0) setRenaming('');
    return errors;
  };
  return (
    <Section title={t('segments.title')} hint={t('segments.hint')}>
      {site.segments.length === 0 ? (
        <Empty>{t('segments.none')}</Empty>
      ) : (
        <Table label={t('segments.title')} head={[t('segments.name'), t('segments.filters'), ...(edit ? [t('saved.action')] : [])]}>
          {site.segments.map((s) => (
            <tr key={s.id}>
              <th scope="row">
                {s.id === renaming ? (
                  <Form submit={t('save')} class="row" onSubmit={rename} label={t('segments.rename')}>
                    <Field name="name" label={t('segments.name')} value={s.name} maxLength={100} required autoFocus />
                  </Form>
                ) : (
                  s.name
                )}
              </th>
              <td>
                {s.filters.map((f, i) => (
                  <div key={i}>{Object.values(filterLabel(f as Filter)).join(' ')}</div>
                ))}
              </td>
              {edit && (
                <td class="number">
                  <span class="inline">
                    <button
                      type="button"
                      class="small"
                      aria-label={`${t('segments.rename')}: ${s.name}`}
                      onClick={() => setRenaming(s.id === renaming ? '' : s.id)}
                    >
                      {t('segments.rename')}
                    </button>
                    <Confirm
                      button={t('saved.delete')}
                      title={t('segments.delete')}
                      text={t('segments.deleteText')}
                      name={s.name}
                      run={async () =>
                        after(
                          (await deleteSegment({ input: { segmentId: s.id } })).deleteSegment,
                          t('saved.deleted', { name: s.name }),
                        )
                      }
                    />
                  </span>
                </td>
              )}
            </tr>
          ))}
        </Table>
      )}
    </Section>
  );
}
