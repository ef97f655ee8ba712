// Links to a site's reports for readers without an account.
import { useState } from 'preact/hooks';
import type { UserError } from '../core/api';
import { useQuery } from '../core/data';
import { Field, Form, Password, Select, type Values } from '../core/form';
import { date } from '../core/format';
import { t } from '../core/language';
import { Empty, Missing } from '../core/states';
import { announce, mayEdit } from '../core/store';
import { Section, Table, Time } from '../core/ui';
import { Code, Secret } from '../parts/copy';
import { createSharedLink, revokeSharedLink, sharing, type SharedLinkFields, type SharingData } from '../operations';
import { Ask } from '../parts/ask';
import { SettingsPage } from '../parts/settings';
import { Mails } from './mails';

const mostLinks = 50;

type Site = NonNullable<SharingData['site']>;

/** Sharing lists the links, makes new links and revokes them. The address of a new link is shown once. */
export function Sharing({ id }: { id: string }) {
  const query = useQuery(sharing, { id });
  const [address, setAddress] = useState('');
  const edit = mayEdit();

  const create = async (values: Values): Promise<UserError[]> => {
    const { name = '', password, segment, expires } = values;
    const input = {
      siteId: id,
      name,
      ...(password && { password }),
      ...(segment && { segmentId: segment }),
      ...(expires && { expiresAt: endOfDay(expires) }),
    };
    const payload = (await createSharedLink({ input })).createSharedLink;
    if (payload?.token) {
      setAddress(location.origin + '/share#' + payload.token);
      await query.reload();
    }
    return payload?.userErrors ?? [];
  };

  return (
    <SettingsPage id={id} query={query} title={t('sharing.title')}>
      {(data) => {
        const { site } = data;
        if (!site) return <Missing />;
        const links = site.sharedLinks;
        return (
          <>
            <p class="lead">{t('sharing.hint')}</p>
            {address && <Secret text={address} label={t('sharing.address')} onDone={() => setAddress('')} />}
            {links.length === 0 ? (
              <Empty>
                <h2>{t('sharing.none')}</h2>
                <p>{t('sharing.noneText')}</p>
              </Empty>
            ) : (
              <Links links={links} edit={edit} reload={query.reload} />
            )}
            {edit && links.length < mostLinks && <NewLink key={links.length} site={site} create={create} />}
            <Mails data={data} reload={query.reload} />
          </>
        );
      }}
    </SettingsPage>
  );
}

/** endOfDay returns the end of a day of this browser's time zone. */
const endOfDay = (day: string): string => new Date(day + 'T23:59:59').toISOString();

function Links(props: { links: SharedLinkFields[]; edit: boolean; reload(): Promise<void> }) {
  const head = [
    t('sharing.name'),
    t('sharing.readers'),
    t('sharing.expires'),
    t('sharing.lastUsed'),
    ...(props.edit ? [t('sharing.action')] : []),
  ];
  return (
    <Section title={t('sharing.links', { n: props.links.length })}>
      <Table label={t('sharing.links', { n: props.links.length })} head={head}>
        {props.links.map((link) => (
          <tr key={link.id}>
            <th scope="row">
              {link.name} <code class="hint">…{link.hint}</code>
            </th>
            <td>
              {link.segment ? t('sharing.only', { segment: link.segment.name }) : t('sharing.allVisits')}
              {link.hasPassword && ', ' + t('sharing.withPassword')}
            </td>
            <td>
              {!link.expiresAt ? (
                t('sharing.never')
              ) : Date.parse(link.expiresAt) > Date.now() ? (
                date(link.expiresAt)
              ) : (
                <span class="state FAILED">{t('sharing.expired')}</span>
              )}
            </td>
            <td>{link.lastUsedAt ? <Time at={link.lastUsedAt} /> : t('sharing.unused')}</td>
            {props.edit && (
              <td class="number">
                <Revoke link={link} reload={props.reload} />
              </td>
            )}
          </tr>
        ))}
      </Table>
    </Section>
  );
}

function Revoke({ link, reload }: { link: SharedLinkFields; reload(): Promise<void> }) {
  const run = async (): Promise<UserError[]> => {
    const errors = (await revokeSharedLink({ input: { sharedLinkId: link.id } })).revokeSharedLink?.userErrors ?? [];
    if (errors.length === 0) {
      announce(t('sharing.revoked', { name: link.name }));
      await reload();
    }
    return errors;
  };
  return (
    <Ask
      button={t('sharing.revoke')}
      label={t('sharing.revokeNamed', { name: link.name })}
      text={t('sharing.revokeText')}
      run={run}
    />
  );
}

function NewLink({ site, create }: { site: Site; create(values: Values): Promise<UserError[]> }) {
  return (
    <Section title={t('sharing.new')}>
      <Form submit={t('sharing.create')} onSubmit={create} class="column" label={t('sharing.new')}>
        <Field name="name" label={t('sharing.name')} hint={t('sharing.nameHint')} maxLength={100} required />
        <Select
          name="segment"
          label={t('sharing.segment')}
          hint={t('sharing.segmentHint')}
          options={[['', t('sharing.allVisits')], ...site.segments.map(({ id, name }): [string, string] => [id, name])]}
        />
        <Password
          name="password"
          label={t('password')}
          hint={t('sharing.passwordHint')}
          autoComplete="new-password"
          minLength={8}
        />
        <Field
          name="expires"
          type="date"
          label={t('sharing.lastDay')}
          hint={t('sharing.lastDayHint')}
          min={new Date().toISOString().slice(0, 10)}
        />
      </Form>
      <details>
        <summary>{t('sharing.api')}</summary>
        <Code
          text={'mutation { openSharedLink(input: { token: "tgl_…" }) { viewerToken } }\n{ sharedSite { name } }'}
          label={t('sharing.api')}
        />
      </details>
    </Section>
  );
}
