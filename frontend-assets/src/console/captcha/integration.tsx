// How pages and servers use a sitekey.
import { useState } from 'preact/hooks';
import type { UserError } from '../core/api';
import { remembered } from '../core/choices';
import { Action, Confirm } from '../core/dialog';
import type { Values } from '../core/form';
import { language, t } from '../core/language';
import { mayEdit } from '../core/store';
import { Section } from '../core/ui';
import { revokeOldSitekeySecret, rotateSitekeySecret, updateSitekey } from '../operations';
import { Choice } from '../parts/choice';
import { Code, Secret } from '../parts/copy';
import { KeepOld, OldSecret } from '../parts/secret';
import { created, type Show, type Sitekey } from './fields';

/** captchas are the own widget, and others with the paths of the script and of the check that stand in for theirs. */
const captchas: [name: string, script?: string, check?: string][] = [
  [''],
  ['reCAPTCHA', '/recaptcha/api.js', '/recaptcha/api/siteverify'],
  ['hCaptcha', '/1/api.js', '/siteverify'],
  ['Turnstile', '/turnstile/v0/api.js', '/turnstile/v0/siteverify'],
];

/** Integration shows the code for pages next to the widget at work, and the secret for servers. */
export function Integration({ sitekey: key, show }: { sitekey: Sitekey; show: Show }) {
  const [secret, setSecret] = useState(created.id === key.id ? created.secret : '');
  const [chosen, choose] = useState('');
  const [, script, check] = captchas.find(([name]) => name === chosen)!;
  const origin = key.cspLines[0]!.replace('script-src ', '');

  const rotate = async ({ keepOldFor = '0' }: Values): Promise<UserError[]> => {
    const payload = (await rotateSitekeySecret({ input: { sitekeyId: key.id, keepOldFor: Number(keepOldFor) } })).rotateSitekeySecret;
    setSecret(payload?.secret ?? '');
    return show(payload);
  };
  const revoke = async (): Promise<UserError[]> => show((await revokeOldSitekeySecret({ input: { sitekeyId: key.id } })).revokeOldSitekeySecret);
  return (
    <>
      {secret && <Secret text={secret} label={t('captcha.secret')} onDone={() => setSecret((created.secret = ''))} />}
      <div class="columns">
        <Section title={t('captcha.widget')}>
          <Choice label={t('captcha.widget')} options={captchas.map(([name]) => [name, name || t('captcha.own')])} chosen={chosen} choose={choose} />
          {script ? (
            <>
              <p class="hint">{t('captcha.dropInHint', { name: chosen })}</p>
              {[['captcha.sitekey', key.sitekey] as const, ['captcha.script', origin + script] as const, ['captcha.check', origin + check] as const].map(([label, text]) => (
                <div key={label}>
                  <h3>{t(label)}</h3>
                  <Code text={text} label={t(label)} />
                </div>
              ))}
            </>
          ) : (
            <>
              <p class="hint">{t('captcha.widgetHint')}</p>
              <Code text={key.widgetTag} label={t('captcha.own')} />
            </>
          )}
          <details>
            <summary>{t('install.csp')}</summary>
            <Code text={key.cspLines.join(';\n')} label={t('install.csp')} />
            <h3>{t('captcha.optionalCsp')}</h3>
            <Code text={key.optionalCspLines.join(';\n')} label={t('captcha.optionalCsp')} />
          </details>
        </Section>
        <div>
          <Preview sitekey={key} show={show} />
          <Section title={t('captcha.secret')} hint={`${t('captcha.secretHint')} ${t('settings.secretEnds', { hint: key.secretHint })}`}>
            <OldSecret hint={key.oldSecretHint} until={key.oldSecretValidUntil} revoke={mayEdit() ? revoke : undefined} />
            {mayEdit() && (
              <Confirm button={t('settings.secretRotate')} title={t('settings.secretRotate')} text={t('captcha.rotateText')} name={key.name} run={rotate}>
                <KeepOld />
              </Confirm>
            )}
          </Section>
        </div>
      </div>
    </>
  );
}

/** Preview shows the widget at work in a frame. The frame's policy allows the captcha's host. */
function Preview({ sitekey: { id, sitekey, domains }, show }: { sitekey: Sitekey; show: Show }) {
  const [count, setCount] = useState(0);
  const host = location.hostname;
  const isName = /^[^:]*[a-z]/.test(host); // an IP address cannot be a domain
  const allowed = domains.length === 0 || domains.some((d) => host === d || host.endsWith('.' + d));
  const allow = async (): Promise<UserError[]> => show((await updateSitekey({ input: { sitekeyId: id, domains: [...domains, host] } })).updateSitekey);
  return (
    <Section title={t('captcha.preview')} hint={t('captcha.previewHint')}>
      {allowed ? (
        <>
          <iframe
            key={count}
            class="preview"
            src={'/captcha-preview?' + new URLSearchParams({ sitekey, lang: language(), theme: remembered('theme') })}
            title={t('captcha.preview')}
          />
          <button type="button" class="small" onClick={() => setCount(count + 1)}>{t('captcha.previewAgain')}</button>
        </>
      ) : (
        <>
          <p>{t('captcha.previewRefused', { host })}</p>
          {mayEdit() && isName && <Action run={allow}>{t('captcha.previewAllow', { host })}</Action>}
        </>
      )}
    </Section>
  );
}
