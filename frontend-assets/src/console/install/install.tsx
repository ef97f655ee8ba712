// A new site, and the steps until its script works.
import { useEffect, useState } from 'preact/hooks';
import type { UserError } from '../core/api';
import { usePolling, useQuery } from '../core/data';
import { Field, Form, type Values } from '../core/form';
import { exact } from '../core/format';
import { t, translated, type TextKey } from '../core/language';
import { go } from '../core/router';
import { Missing } from '../core/states';
import { chosenAccount, mayEdit } from '../core/store';
import { Time, Title } from '../core/ui';
import { Code, CopyButton } from '../parts/copy';
import {
  createSite,
  install,
  installCheck,
  liveFigures,
  siteDomains,
  viewer as readViewer,
  type InstallData,
  type RejectionFields,
} from '../operations';
import { Choice } from '../parts/choice';
import { byCode } from '../parts/codes';
import { Group } from '../parts/group';
import { SettingsPage } from '../parts/settings';
import { currentZone } from '../parts/zones';

type Site = NonNullable<InstallData['site']>;

/** hostOf returns the host of what an owner typed or pasted, which may be an address. */
const hostOf = (text: string): string =>
  text
    .trim()
    .replace(/^[a-z]+:\/\//i, '')
    .replace(/[/?#].*$/, '')
    .toLowerCase();

/** isLocal reports whether a host with its port is the owner's own machine. */
const isLocal = (host: string): boolean => /^(localhost|127\.[\d.]+|\[::1\])(:\d+)?$|\.localhost:\d+$/.test(host);

/** useCovering returns the domain of a site of the account that accepts the pages of a host, or ''. */
function useCovering(host: string): string {
  const [found, setFound] = useState<[host: string, domain: string]>(['', '']);
  useEffect(() => {
    if (!/.\.[^.]+\.[^.]/.test(host)) return undefined;

    const stop = new AbortController();
    const look = (): void =>
      void siteDomains({ account: chosenAccount(), search: host.split('.').slice(-2).join('.') }, stop.signal).then(
        ({ sites }) => {
          const all = sites?.nodes.flatMap(({ domain, extraDomains }) => [domain, ...extraDomains]) ?? [];
          setFound([host, all.find((domain) => host.endsWith('.' + domain)) ?? '']);
        },
        () => undefined, // the form works without the warning
      );
    const timer = setTimeout(look, 300);
    return () => {
      clearTimeout(timer);
      stop.abort();
    };
  }, [host]);
  return found[0] === host ? found[1] : '';
}

/** Advice explains what becomes of a domain before the form is sent. */
function Advice({ host }: { host: string }) {
  const covering = useCovering(host.replace(/^www\./, ''));
  const bare = /^www\.(.+\..+)/.exec(host)?.[1];
  return (
    <div role="status">
      {isLocal(host) && <p class="notice">{t('newSite.local')}</p>}
      {bare && <p class="notice">{t('newSite.www', { domain: bare })}</p>}
      {covering && <p class="notice">{t('newSite.covered', { host, domain: covering })}</p>}
    </div>
  );
}

/** NewSite asks for the domain and leads to the installation. */
export function NewSite() {
  const { data } = useQuery(readViewer, {});
  const [typed, setTyped] = useState('');
  const submit = async ({ domain = '', name = '' }: Values): Promise<UserError[]> => {
    const timeZone = currentZone();
    const payload = (await createSite({
      input: { accountId: chosenAccount(), domain: hostOf(domain), name: name.trim() || null, timeZone },
    })).createSite;
    if (payload?.site) go(`/sites/${payload.site.id}/install`);
    return payload?.userErrors ?? [];
  };

  return (
    <>
      <p class="crumb">
        <a href="/">{t('nav.sites')}</a>
      </p>
      <Title text={t('sites.new')} />
      {data && !mayEdit() ? (
        <p class="notice">{t('failure.FORBIDDEN')}</p>
      ) : (
        <Form submit={t('newSite.submit')} onSubmit={submit} class="column">
          <div
            onInput={(e) => {
              const { name, value } = e.target as HTMLInputElement;
              if (name === 'domain') setTyped(value);
            }}
          >
            <Field
              name="domain"
              label={t('newSite.domain')}
              hint={t('newSite.domainHint')}
              placeholder="example.com"
              inputMode="url"
              required
              autoFocus
            />
            <Advice host={hostOf(typed)} />
          </div>
          <Field name="name" label={t('newSite.name')} hint={t('newSite.nameHint')} maxLength={100} />
        </Form>
      )}
    </>
  );
}

/** Install shows how the script gets into the pages, and whether it works. */
export function Install({ id }: { id: string }) {
  const query = useQuery(install, { id });
  return (
    <SettingsPage id={id} query={query} title={t('install.title')}>
      {({ site }) => (site ? <Steps site={site} /> : <Missing />)}
    </SettingsPage>
  );
}

/** Steps are folded if the site had a hit in the last hour. */
function Steps({ site }: { site: Site }) {
  const [works] = useState(Date.now() - Date.parse(site.lastHitAt ?? '') < 3_600_000);
  const steps = (
    <>
      <Group tall title={t('install.step1')}>
        <Tag site={site} />
        <details>
          <summary>{t('install.csp')}</summary>
          <p>{t('install.cspHint')}</p>
          <Code text={site.cspLines.join(';\n')} label={t('install.csp')} />
        </details>
      </Group>
      <Group tall title={t('install.step2')} hint={t('install.debug')}>
        <p>
          <a class="button" href={`https://${site.domain}/?svc_debug`} target="_blank" rel="noreferrer">
            {t('install.open', { domain: site.displayDomain })}
          </a>
        </p>
        {asksNotToBeTracked() && <p class="notice">{t('check.doNotTrack')}</p>}
      </Group>
    </>
  );
  return works ? (
    <>
      <Result site={site} works />
      <details><summary>{t('install.steps')}</summary>{steps}</details>
    </>
  ) : (
    <>
      {steps}
      <Group tall title={t('install.step3')}><Result site={site} /></Group>
    </>
  );
}

/** Tag shows what pages or servers need, in the form that the owner chooses. */
function Tag({ site }: { site: Site }) {
  const { scriptTag, siteKey } = site;
  const [chosen, choose] = useState('HTML');
  const address = /src="([^"]+)"/.exec(scriptTag)?.[1] ?? '';
  const folder = address.replace(/\/svc\.js$/, '');
  const manager = `<script>
(function () {
  var s = document.createElement('script');
  s.src = '${address}';
  s.defer = true;
  s.setAttribute('data-site', '${siteKey}');
  document.head.appendChild(s);
})();
</script>`;
  const wordpress = `<?php
add_action('wp_head', function () {
    if (!current_user_can('edit_posts')) {
        echo '${scriptTag}';
    }
});`;
  const server = `curl ${folder}/server.php \\
  --header 'Authorization: Bearer svcs_…' --header 'Content-Type: application/json' \\
  --data '{"event": "signup", "ip": "203.0.113.7", "user_agent": "Mozilla/5.0 …", "path": "/welcome"}'`;
  const ways: [name: string, hint: TextKey, code: string][] = [
    ['HTML', 'install.tagHint', scriptTag],
    ['WordPress', 'install.wordpress', wordpress],
    [t('install.manager'), 'install.managerText', manager],
    ['npm', 'install.npm', `import { init } from '@tallygate/analytics'\n\ninit({ site: '${siteKey}', url: '${folder}' })`],
    [t('install.server'), 'install.serverText', server],
    [t('install.other'), 'install.otherText', ''],
  ];
  const [name, hint, code] = ways.find(([name]) => name === chosen)!;
  return (
    <>
      <Choice label={t('install.step1')} options={ways.map(([name]) => [name, name])} chosen={chosen} choose={choose} />
      <p class="hint">
        {t(hint)} {code === server && <a href={`/sites/${site.id}/advanced`}>{t('advanced.title')}</a>}
      </p>
      {code ? <Code text={code} label={name} /> : <OtherProduct site={site} folder={folder} />}
    </>
  );
}

/** OtherProduct shows what programs with fields for another product ask for, and that product's tag. */
function OtherProduct({ site, folder }: { site: Site; folder: string }) {
  const withKey = `${folder}/${site.siteKey}`;
  // Where the id is a domain or a number, the address has the key.
  const products: { name: string; tag: string; fields: [label: TextKey, value: string][] }[] = [
    {
      name: 'Umami',
      tag: site.umamiTag,
      fields: [
        ['install.script', `${folder}/script.js`],
        ['install.host', folder],
        ['install.id', site.siteKey],
      ],
    },
    {
      name: 'Plausible',
      tag: site.plausibleTag,
      fields: [
        ['install.script', `${withKey}/js/script.js`],
        ['install.host', withKey],
        ['newSite.domain', site.domain],
      ],
    },
    {
      name: 'GoatCounter',
      tag: site.goatcounterTag,
      fields: [
        ['install.script', `${withKey}/count.js`],
        ['install.calls', `${withKey}/count`],
      ],
    },
    {
      name: 'Matomo',
      tag: site.matomoTag,
      fields: [
        ['install.script', `${withKey}/matomo.js`],
        ['install.host', withKey],
        ['install.id', '1'],
      ],
    },
  ];
  const [chosen, choose] = useState('Umami');
  const { name, tag, fields } = products.find(({ name }) => name === chosen)!;

  return (
    <>
      <Choice label={t('install.other')} options={products.map(({ name }) => [name, name])} chosen={name} choose={choose} />
      <dl class="facts">
        {fields.map(([label, value]) => (
          <div key={label}>
            <dt>{t(label)}</dt>
            <dd>
              <code>{value}</code> <CopyButton text={value} label={t(label)} />
            </dd>
          </div>
        ))}
      </dl>
      <Code text={tag} label={name} />
    </>
  );
}

/** arrivedSince returns the calls of each code that the list has in addition to an earlier list. */
function arrivedSince(before: RejectionFields[], list: RejectionFields[], ignored: boolean) {
  const earlier = new Map(byCode(before, ignored).map(({ code, count }) => [code, count]));
  return byCode(list, ignored)
    .map((sum) => ({ ...sum, count: sum.count - (earlier.get(sum.code) ?? 0) }))
    .filter(({ count, recorded }) => count > 0 && !recorded);
}

/** asksNotToBeTracked reports whether the script sends nothing from this browser. */
function asksNotToBeTracked(): boolean {
  const { doNotTrack, globalPrivacyControl } = navigator as {
    doNotTrack?: string | null;
    globalPrivacyControl?: boolean;
  };
  return doNotTrack === '1' || globalPrivacyControl === true;
}

/** remedies are the pages where an owner resolves why calls are refused or ignored, by the beginnings of their codes. */
const remedies: [codes: RegExp, page: string, text: TextKey][] = [
  [/^domain_not_allowed/, 'settings', 'check.addDomain'],
  [/^excluded|^data_centre/, 'exclusions', 'exclusions.title'],
];

/** Result shows a hit that arrives after the page was opened, and refused and ignored calls as they come. */
function Result({ site, works }: { site: Site; works?: boolean }) {
  const [now, setNow] = useState<{ lastHitAt: string | null; rejections: RejectionFields[] }>(site);
  usePolling(async () => {
    try {
      const next = (await installCheck({ id: site.id })).site;
      if (next) setNow(next);
    } catch {
      // The next attempt follows; the page itself reports lasting failures.
    }
  }, 2000);

  const last = now.lastHitAt && (
    <>
      {t('site.lastHit')}: <Time at={now.lastHitAt} />
    </>
  );
  return (
    <div role="status" class="net">
      {works || now.lastHitAt !== site.lastHitAt ? (
        <div class="notice good">
          <strong>{t('check.arrived')}</strong>
          <p>{last} <LastPage key={now.lastHitAt} id={site.id} /></p>
          <p><a class="button small" href={`/sites/${site.id}?period=today`}>{t('check.toSite')}</a></p>
        </div>
      ) : (
        <>
          <strong class="waiting">{t('check.waiting')}</strong>
          <p class="lead">{t('check.soon')} {last}</p>
        </>
      )}
      {[false, true].map((ignored) => {
        const list = arrivedSince(site.rejections, now.rejections, ignored);
        return list[0] && (
          <div class={ignored ? 'notice' : 'notice bad'}>
            <p>{t(ignored ? 'check.ignored' : 'check.refused')}</p>
            <ul>
              {list.map(({ code, count, advice }) => (
                <li key={code}>
                  <code>{code}</code> × {exact(count)}: {ignored ? translated('check.ignored', code, advice) : advice}{' '}
                  {remedies.map(([codes, page, text]) => codes.test(code) && <a class="button small" href={`/sites/${site.id}/${page}`}>{t(text)}</a>)}
                </li>
              ))}
            </ul>
            {!ignored && <p class="hint">{t('check.delay', { domains: [site.domain, ...site.extraDomains].join(', ') })}</p>}
          </div>
        );
      })}
    </div>
  );
}

/** LastPage is the page of the last hit. */
function LastPage({ id }: { id: string }) {
  const path = useQuery(liveFigures, { id }).data?.site?.live.latest[0]?.path;
  return path ? <>· <code>{path}</code></> : null;
}
