// The frame of every page: header, menus, footer, messages, keyboard shortcuts.
import type { ComponentChildren } from 'preact';
import { useEffect, useRef, useState } from 'preact/hooks';
import { Dialog } from './dialog';
import { language, languages, t, type TextKey } from './language';
import { go, isAsked, useURL } from './router';
import { applyTheme, remember, remembered } from './choices';
import { failureText } from './states';
import { accountOf, announce, chosenAccount, isGuest, pageKeys, status, viewer } from './store';
import type { Failure } from './api';
import { signOut, updateUser, type Language, type ViewerFields } from '../operations';

/** Shell surrounds a page. Pages for unauthenticated callers have no menus; their forms are narrow. */
export function Shell({ bare, narrow, children }: { bare: boolean; narrow: boolean; children: ComponentChildren }) {
  const user = viewer.use();
  const message = status.use();
  const suspended = !bare && accountOf(user)?.suspension;
  return (
    <>
      <a class="skip" href="#main" onClick={skip}>
        {t('nav.skip')}
      </a>
      <header class="top">
        <a class="brand" href="/">
          <Logo /> <span>Tallygate</span>
        </a>
        {!bare && <MainMenu />}
        {!bare && user?.accounts[1] && <Accounts user={user} />}
        {!bare && user && <UserMenu user={user} />}
      </header>
      <main id="main" tabIndex={-1} class={narrow ? 'narrow' : undefined}>
        {suspended && <p class="notice bad">{t('nav.suspended', { reason: suspended.reason })}</p>}
        {children}
      </main>
      <Footer />
      <div class="status" role="status">
        {message && <span>{message}</span>}
      </div>
      <Shortcuts />
    </>
  );
}

/** skip moves the focus to the page without a change of the fragment, which can be the token of a shared link. */
function skip(event: Event): void {
  event.preventDefault();
  document.getElementById('main')!.focus();
}

function Logo() {
  return (
    <svg viewBox="0 0 16 16" width="20" height="20" aria-hidden="true">
      <path
        d="M2 2v12M5.5 2v12M9 2v12M12.5 2v12M.5 12 14.5 4"
        fill="none"
        stroke="currentColor"
        stroke-width="1.6"
        stroke-linecap="round"
      />
    </svg>
  );
}

function MainMenu() {
  const { pathname } = useURL();
  const items: [string, TextKey][] = [
    ['/', 'nav.sites'],
    ...(isGuest() ? [] : [['/captcha', 'nav.captcha'] as [string, TextKey]]),
  ];
  const current = pathname.startsWith('/captcha')
    ? '/captcha'
    : pathname === '/' || pathname.startsWith('/sites')
      ? '/'
      : '';
  return (
    <nav aria-label={t('nav.main')}>
      {items.map(([address, text]) => (
        <a key={address} href={address} aria-current={current === address ? 'page' : undefined}>
          {t(text)}
        </a>
      ))}
    </nav>
  );
}

/** Accounts chooses one of the user's accounts. A page of one object leads to the list of sites. */
function Accounts({ user: { account, accounts } }: { user: ViewerFields }) {
  const { pathname } = useURL();
  return (
    <select
      aria-label={t('nav.account')}
      value={chosenAccount() ?? account.id}
      onChange={({ currentTarget }) => {
        const lastAccountId = currentTarget.value;
        const open = (): void => {
          go((/^.(sites|captcha)./.test(pathname) ? '/' : pathname) + '?account=' + lastAccountId);
          updateUser({ input: { lastAccountId } }).catch(() => undefined); // the address has it all the same
        };
        if (isAsked(open)) currentTarget.value = chosenAccount() ?? account.id;
        else open();
      }}
    >
      {accounts.map(({ id, name }) => (
        <option key={id} value={id}>
          {name}
        </option>
      ))}
    </select>
  );
}

function UserMenu({ user: { email, operator } }: { user: ViewerFields }) {
  const { pathname } = useURL();
  const [open, setOpen] = useState(false);

  // A link of the menu changes the address, which closes it, also before the event of its opening.
  const menu = useRef<HTMLDetailsElement>(null);
  useEffect(() => {
    menu.current!.open = false;
    setOpen(false);
  }, [pathname]);

  const leave = async (): Promise<void> => {
    if (isAsked(leave)) return;
    try {
      const to = (await signOut({ input: { everywhere: false } })).signOut?.providerUrl;
      if (to) return location.assign(to);
    } catch (failure) {
      return announce(failureText(failure as Failure));
    }
    viewer.set(null);
    go('/sign-in');
  };

  return (
    <details
      ref={menu}
      class="menu"
      open={open}
      onToggle={(e) => setOpen(e.currentTarget.open)}
      onKeyDown={(e) => {
        if (e.key === 'Escape') {
          // Its toggle event updates the state, also while an earlier event is still in flight.
          e.currentTarget.open = false;
          e.currentTarget.querySelector('summary')!.focus();
        }
      }}
      onFocusOut={(e) => {
        if (e.relatedTarget instanceof Node && !e.currentTarget.contains(e.relatedTarget)) setOpen(false);
      }}
    >
      <summary aria-label={t('nav.user', { email })}>
        <span>{email}</span>
        <svg viewBox="0 0 16 16" width="20" height="20" aria-hidden="true">
          <path
            d="M8 8a3 3 0 1 0 0-6 3 3 0 0 0 0 6Zm-5.5 6a5.5 5.5 0 0 1 11 0"
            fill="none"
            stroke="currentColor"
            stroke-width="1.5"
          />
        </svg>
      </summary>
      <div>
        <a href="/account">{t('nav.account')}</a>
        {operator && <a href="/operator">{t('nav.operator')}</a>}
        <button type="button" onClick={leave}>
          {t('nav.signOut')}
        </button>
      </div>
    </details>
  );
}

/** Footer has the choices that hold on every page, also before signing in. */
function Footer() {
  const [theme, setTheme] = useState(remembered('theme'));
  return (
    <footer>
      <label>
        {t('footer.theme')}{' '}
        <select
          value={theme}
          onChange={(e) => {
            const chosen = e.currentTarget.value;
            setTheme(chosen);
            applyTheme(chosen);
            remember('theme', chosen);
          }}
        >
          <option value="">{t('footer.theme.system')}</option>
          <option value="light">{t('footer.theme.light')}</option>
          <option value="dark">{t('footer.theme.dark')}</option>
        </select>
      </label>
      <label>
        {t('footer.language')}{' '}
        <select
          value={language()}
          onChange={async (e) => {
            const chosen = e.currentTarget.value;
            remember('language', chosen);

            // Mails follow the choice. If that fails, the page does all the same.
            const input = { language: chosen.toUpperCase() as Language };
            if (viewer.get()) await updateUser({ input }).catch(() => undefined);
            location.reload();
          }}
        >
          {Object.entries(languages).map(([code, name]) => (
            <option key={code} value={code} lang={code}>
              {name}
            </option>
          ))}
        </select>
      </label>
      <button type="button" class="link" onClick={() => dispatchEvent(new Event('tallygate:shortcuts'))}>
        {t('shortcuts.title')}
      </button>
    </footer>
  );
}

/** shortcuts lists the keys that work on every page. Two keys are pressed one after the other. */
const shortcuts: [keys: string, text: TextKey, address: string][] = [
  ['g s', 'nav.sites', '/'],
  ['g n', 'sites.new', '/sites/new'],
  ['g c', 'nav.captcha', '/captcha'],
  ['g a', 'nav.account', '/account'],
  ['g m', 'nav.members', '/members'],
  ['g t', 'nav.tokens', '/tokens'],
];

/** shortcutsNow leaves out the pages that guests do not have. */
const shortcutsNow = (): typeof shortcuts => (isGuest() ? shortcuts.filter(([keys]) => !/[cm]$/.test(keys)) : shortcuts);

/** Shortcuts handles the keys and shows their list on "?". They can be turned off for screen readers and dictation. */
function Shortcuts() {
  const [open, setOpen] = useState(false);
  const [on, setOn] = useState(true);

  useEffect(() => {
    let before = '';
    const press = (event: KeyboardEvent): void => {
      const typing = event.target instanceof Element && event.target.closest('input, textarea, select, dialog, .menu');
      if (event.metaKey || event.ctrlKey || event.altKey || event.isComposing || typing || !on) return;

      const key = event.key;
      const target = viewer.get() && shortcutsNow().find(([keys]) => keys === before + ' ' + key);
      const own = pageKeys.get().find(([wanted]) => wanted === key || wanted === key.toUpperCase());
      before = key;

      if (key === '?') setOpen(true);
      else if (target) go(target[2]);
      else if (own) {
        own[2]();
        event.preventDefault();
      }
      else if (key === '/') {
        const search = document.querySelector<HTMLInputElement>('input[type=search]');
        if (!search) return;
        search.focus();
        event.preventDefault();
      }
    };
    const show = (): void => setOpen(true);

    addEventListener('keydown', press);
    addEventListener('tallygate:shortcuts', show);
    return () => {
      removeEventListener('keydown', press);
      removeEventListener('tallygate:shortcuts', show);
    };
  }, [on]);

  if (!open) return null;
  const own = pageKeys.get();
  const listed: (readonly [string, string])[] = [
    ...own.map(([key, text]) => [key, text] as const),
    ...shortcutsNow().map(([keys, text]) => [keys, t(text)] as const),
    ...(own.some(([key]) => key === '/') ? [] : [['/', t('shortcuts.search')] as const]),
    ['?', t('shortcuts.title')],
  ];
  return (
    <Dialog title={t('shortcuts.title')} onClose={() => setOpen(false)}>
      <dl class="keys">
        {listed.map(([keys, text]) => (
          <div key={keys}>
            <dt>
              {keys.split(' ').map((k) => (
                <kbd key={k}>{k}</kbd>
              ))}
            </dt>
            <dd>{text}</dd>
          </div>
        ))}
      </dl>
      <div class="check">
        <input id="shortcuts-on" type="checkbox" checked={on} onChange={(e) => setOn(e.currentTarget.checked)} />
        <label for="shortcuts-on">{t('shortcuts.on')}</label>
      </div>
    </Dialog>
  );
}
