// Links to a site's reports for readers without an account.
import { useState } from 'preact/hooks';
import type { UserError } from '../core/api';
import { useQuery } from '../core/data';
import { Dialog } from '../core/dialog';
import { Field, Password, Select, type Values } from '../core/form';
import { date } from '../core/format';
import { t } from '../core/language';
import { Empty, Missing } from '../core/states';
import { announce, mayEdit } from '../core/store';
import { Section, Table, Time } from '../core/ui';
import { Check } from '../parts/check';
import { Code, Secret } from '../parts/copy';
import { createSharedLink, revokeSharedLink, sharing, type SharedLinkFields, type SharingData } from '../operations';
import { Ask } from '../parts/ask';
import { Rows, rowsOf } from '../parts/rows';
import { SettingsPage } from '../parts/settings';

const mostLinks = 50;

type Site = NonNullable<SharingData['site']>;

/** Sharing lists the links with their addresses, makes new links and revokes them. */
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
      hideRevenue: !!values['hideRevenue'],
      origins: rowsOf(values['origins']),
    };
    const payload = (await createSharedLink({ input })).createSharedLink;
    if (payload?.token) {
      setAddress(addressOf(payload.token));
      await query.reload();
    }
    return payload?.userErrors ?? [];
  };

  return (
    <SettingsPage id={id} query={query} title={t('sharing.title')}>
      {({ site }) => {
        if (!site) return <Missing />;
        const links = site.sharedLinks;
        const add = edit && links.length < mostLinks && (
          <Ask main button={t('sharing.new')} submit={t('sharing.create')} run={create}><LinkFields site={site} /></Ask>
        );
        return (
          <>
            <p class="lead">{t('sharing.hint')}</p>
            {address && (
              <Secret text={address} label={t('sharing.address')} hint={t('sharing.addressHint')} onDone={() => setAddress('')} />
            )}
            {links.length === 0 ? (
              <Empty>
                <h2>{t('sharing.none')}</h2>
                <p>{t('sharing.noneText')}</p>
                {add}
              </Empty>
            ) : (
              <>
                <Links title={site.name} links={links} edit={edit} reload={query.reload} />
                {add}
              </>
            )}
          </>
        );
      }}
    </SettingsPage>
  );
}

/** addressOf returns the address of a link. The token stands behind #, so no server logs it. */
const addressOf = (token: string): string => location.origin + '/share#' + token;

/** frameOf returns the HTML that shows a link's report in a page of another site. */
const frameOf = ({ id, token }: SharedLinkFields, title: string): string =>
  `<iframe src="${location.origin}/embed/${id}#${token}" title="${escaped(title)}"\n` +
  '  width="100%" height="1600" loading="lazy" style="border: 0"></iframe>';

const escaped = (text: string): string => text.replaceAll('&', '&amp;').replaceAll('"', '&quot;').replaceAll('<', '&lt;');

/** endOfDay returns the end of a day of this browser's time zone. */
const endOfDay = (day: string): string => new Date(day + 'T23:59:59').toISOString();

function Links(props: { title: string; links: SharedLinkFields[]; edit: boolean; reload(): Promise<void> }) {
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
              {link.hidesRevenue && ', ' + t('sharing.withoutRevenue')}
              {link.origins[0] && <p class="hint">{t('sharing.framedBy', { origins: link.origins.join(', ') })}</p>}
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
                <Address link={link} title={props.title} /> <Revoke link={link} reload={props.reload} />
              </td>
            )}
          </tr>
        ))}
      </Table>
    </Section>
  );
}

/** Address shows the address of a link again, and the HTML for pages that may frame its report. */
function Address({ link, title }: { link: SharedLinkFields; title: string }) {
  const [open, setOpen] = useState(false);
  return (
    <>
      <button type="button" class="small" aria-label={t('sharing.showNamed', { name: link.name })} onClick={() => setOpen(true)}>
        {t('sharing.show')}
      </button>
      {open && (
        <Dialog title={link.name} onClose={() => setOpen(false)}>
          {link.token ? (
            <>
              <h3>{t('sharing.address')}</h3>
              <Code text={addressOf(link.token)} label={t('sharing.address')} />
              {link.origins[0] && (
                <>
                  <h3>{t('sharing.frame')}</h3>
                  <p>{t('sharing.frameText', { origins: link.origins.join(', ') })}</p>
                  <Code text={frameOf(link, title)} label={t('sharing.frame')} />
                </>
              )}
            </>
          ) : (
            <p>{t('sharing.notKept', { hint: link.hint })}</p>
          )}
        </Dialog>
      )}
    </>
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
      danger
      run={run}
    />
  );
}

function LinkFields({ site }: { site: Site }) {
  return (
    <>
      <Field name="name" label={t('sharing.name')} hint={t('sharing.nameHint')} maxLength={100} required autoFocus />
      <Select
        name="segment"
        label={t('sharing.segment')}
        hint={t('sharing.segmentHint')}
        options={[['', t('sharing.allVisits')], ...site.segments.map(({ id, name }): [string, string] => [id, name])]}
      />
      <Password name="password" label={t('password')} hint={t('sharing.passwordHint')} autoComplete="new-password" minLength={8} />
      <Field
        name="expires"
        type="date"
        label={t('sharing.lastDay')}
        hint={t('sharing.lastDayHint')}
        min={new Date().toISOString().slice(0, 10)}
      />
      <Check name="hideRevenue" label={t('sharing.hideRevenue')} hint={t('sharing.hideRevenueHint')} />
      <fieldset>
        <legend>{t('sharing.origins')}</legend>
        <p class="hint">{t('sharing.originsHint')}</p>
        <Rows name="origins" label={t('sharing.origin')} values={[]} add="https://www.example.org" />
      </fieldset>
      <details>
        <summary>{t('sharing.api')}</summary>
        <Code
          text={'mutation { openSharedLink(input: { token: "tgl_…" }) { viewerToken } }\n{ sharedSite { name } }'}
          label={t('sharing.api')}
        />
      </details>
    </>
  );
}
