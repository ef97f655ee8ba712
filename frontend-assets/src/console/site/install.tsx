// A new site, and the check that its script works.
import { useEffect, useState } from 'preact/hooks';
import type { UserError } from '../core/api';
import { usePolling, useQuery } from '../core/data';
import { Field, Form, Select, type Values } from '../core/form';
import { exact } from '../core/format';
import { t, type TextKey } from '../core/language';
import { go } from '../core/router';
import { Missing } from '../core/states';
import { chosenAccount } from '../core/store';
import { Section, Time, Title } from '../core/ui';
import { Code, CopyButton } from '../parts/copy';
import {
  createSite,
  install,
  installCheck,
  siteDomains,
  viewer as readViewer,
  type InstallData,
  type RejectionFields,
} from '../operations';
import { byCode } from '../parts/codes';
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
  const reads = useQuery(readViewer, {}).data?.viewer?.role === 'VIEWER';
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
      {reads && <p class="notice">{t('failure.FORBIDDEN')}</p>}
      <section class="card slim">
        <Form submit={t('newSite.submit')} onSubmit={submit} class="column" disabled={reads}>
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
      </section>
    </>
  );
}

/** Install shows the tag and its variants, and watches for the first hit. */
export function Install({ id }: { id: string }) {
  const query = useQuery(install, { id });
  return (
    <SettingsPage id={id} query={query} title={t('install.title')}>
      {({ site }) =>
        site ? (
          <>
            <div class="columns">
              <div>
                <Section title={t('install.tag')} hint={t('install.tagHint')}>
                  <Code text={site.scriptTag} label={t('install.tag')} />
                  <Variants site={site} />
                </Section>
                <Section title={t('install.csp')} hint={t('install.cspHint')}>
                  <Code text={site.cspLines.join(';\n')} label={t('install.csp')} />
                </Section>
              </div>
              <Check site={site} />
            </div>
          </>
        ) : (
          <Missing />
        )
      }
    </SettingsPage>
  );
}

/** scriptAddress returns the address of the script in a tag. */
const scriptAddress = (tag: string): string => /src="([^"]+)"/.exec(tag)?.[1] ?? '';

function Variants({ site }: { site: Site }) {
  const address = scriptAddress(site.scriptTag);
  const manager = `<script>
(function () {
  var s = document.createElement('script');
  s.src = '${address}';
  s.defer = true;
  s.setAttribute('data-site', '${site.siteKey}');
  document.head.appendChild(s);
})();
</script>`;
  const server = `curl ${address.replace(/svc\.js$/, 'server.php')} \\
  --header 'Authorization: Bearer svcs_…' --header 'Content-Type: application/json' \\
  --data '{"event": "signup", "ip": "203.0.113.7", "user_agent": "Mozilla/5.0 …", "path": "/welcome"}'`;
  return (
    <>
      <details>
        <summary>{t('install.spa')}</summary>
        <p>{t('install.spaText')}</p>
      </details>
      <details>
        <summary>{t('install.manager')}</summary>
        <p>{t('install.managerText')}</p>
        <Code text={manager} label={t('install.manager')} />
      </details>
      <details>
        <summary>{t('install.server')}</summary>
        <p>
          {t('install.serverText')} <a href={`/sites/${site.id}/advanced`}>{t('settings.title')}</a>
        </p>
        <Code text={server} label={t('install.server')} />
      </details>
      <OtherProduct site={site} folder={address.replace(/\/svc\.js$/, '')} />
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
    <details>
      <summary>{t('install.other')}</summary>
      <p>{t('install.otherText')}</p>
      <form class="column">
        <Select
          name="product"
          label={t('install.product')}
          options={products.map(({ name }) => [name, name])}
          value={name}
          onChange={choose}
        />
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
        <Code text={tag} label={`${t('install.tag')}: ${name}`} />
      </form>
    </details>
  );
}

/** arrivedSince returns the calls of each code that the list has in addition to an earlier list. */
function arrivedSince(before: RejectionFields[], list: RejectionFields[], ignored: boolean) {
  const earlier = new Map(byCode(before, ignored).map(({ code, count }) => [code, count]));
  return byCode(list, ignored)
    .map((sum) => ({ ...sum, count: sum.count - (earlier.get(sum.code) ?? 0) }))
    .filter(({ count, recorded }) => count > 0 && !recorded);
}

/** ignoredTexts explain to an owner who waits for a hit why calls were ignored, and what to do. */
const ignoredTexts: Record<string, TextKey> = {
  bot: 'check.ignored.bot',
  excluded_address: 'check.ignored.excluded_address',
  excluded_country: 'check.ignored.excluded_country',
  excluded_path: 'check.ignored.excluded_path',
  referrer_spam: 'check.ignored.referrer_spam',
  data_centre: 'check.ignored.data_centre',
  flood: 'check.ignored.flood',
  duplicate_pageview: 'check.ignored.duplicate_pageview',
};

/** asksNotToBeTracked reports whether the script sends nothing from this browser. */
function asksNotToBeTracked(): boolean {
  const { doNotTrack, globalPrivacyControl } = navigator as {
    doNotTrack?: string | null;
    globalPrivacyControl?: boolean;
  };
  return doNotTrack === '1' || globalPrivacyControl === true;
}

/** Check polls until a hit arrives after the page was opened, and shows refused calls as they come. */
function Check({ site }: { site: Site }) {
  const [now, setNow] = useState<{ lastHitAt: string | null; rejections: RejectionFields[] }>(site);
  const [before] = useState(site.rejections);
  const arrived = now.lastHitAt !== site.lastHitAt;

  usePolling(async () => {
    try {
      const next = (await installCheck({ id: site.id })).site;
      if (next) setNow(next);
    } catch {
      // The next attempt follows; the page itself reports lasting failures.
    }
  }, 2000);

  const refused = arrivedSince(before, now.rejections, false);
  const ignored = arrivedSince(before, now.rejections, true);

  return (
    <Section title={t('check.title')}>
      <div role="status">
        {arrived ? (
          <p class="notice good">
            <strong>{t('check.arrived')}</strong> <Time at={now.lastHitAt!} />.{' '}
            <a href={`/sites/${site.id}?period=today`}>{t('check.toSite')}</a>
          </p>
        ) : (
          <p class="waiting">
            {t('check.waiting')}
            {now.lastHitAt && (
              <>
                {' '}
                {t('site.lastHit')}: <Time at={now.lastHitAt} />.
              </>
            )}
          </p>
        )}
        {refused.length > 0 && (
          <div class="notice bad">
            <p>
              <strong>{t('check.refused')}</strong>
            </p>
            <ul>
              {refused.map(({ code, count, advice }) => (
                <li key={code}>
                  <code>{code}</code> × {exact(count)}: {advice}{' '}
                  {code === 'domain_not_allowed' && <a href={`/sites/${site.id}/settings`}>{t('check.addDomain')}</a>}
                </li>
              ))}
            </ul>
          </div>
        )}
        {ignored.length > 0 && (
          <div class="notice">
            <p>
              <strong>{t('check.ignored')}</strong>
            </p>
            <ul>
              {ignored.map(({ code, count, advice }) => (
                <li key={code}>
                  <code>{code}</code> × {exact(count)}: {ignoredTexts[code] ? t(ignoredTexts[code]) : advice}{' '}
                  {/^excluded|^data_centre/.test(code) && (
                    <a href={`/sites/${site.id}/exclusions`}>{t('exclusions.title')}</a>
                  )}
                </li>
              ))}
            </ul>
          </div>
        )}
      </div>
      <ol>
        <li>{t('check.step1')}</li>
        <li>
          {t('check.step2')}{' '}
          <a href={`https://${site.domain}/?svc_debug`} target="_blank" rel="noreferrer">{site.domain}</a>
        </li>
        <li>{t('check.step3')}</li>
      </ol>
      {asksNotToBeTracked() && <p class="notice">{t('check.doNotTrack')}</p>}
      <p class="hint">{t('check.delay', { domains: [site.domain, ...site.extraDomains].join(', ') })}</p>
    </Section>
  );
}
