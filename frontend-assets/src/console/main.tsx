// The console's first module: everything until the first view, and the core for the others.
import {
  applyTheme,
  chosenAccount,
  follow,
  loadLater,
  Loading,
  match,
  Missing,
  preferredLanguage,
  remembered,
  render,
  setLanguage,
  Shell,
  useEffect,
  useState,
  useURL,
  type ComponentType,
  type Messages,
} from './core';
import { ConfirmSignUp, ForgotPassword, ResetPassword, SignIn, SignUp } from './pages/enter';
import { Overview } from './pages/overview';
import { Shared, SharedByPath } from './pages/shared';
import { Sites } from './pages/sites';

export * from './core';

/** Page is a page's component with the parameters of its path. */
type Page = ComponentType<Record<string, string>>;

/** These pages of this module need no session and have no menus. */
const bare: Record<string, Page> = {
  '/sign-in': SignIn,
  '/sign-up': SignUp,
  '/forgot-password': ForgotPassword,
  '/reset-password': ResetPassword,
  '/confirm-sign-up': ConfirmSignUp,
  '/share': Shared,
  '/share/:token': SharedByPath as Page,
};
const first: Record<string, Page> = { '/': Sites, '/sites/:id': Overview as Page };

/** later has the modules that are loaded on demand, each with the paths of its pages. */
const later: { load: () => Promise<{ pages: Record<string, Page> }>; paths: string[] }[] = [
  { load: () => import('./details'), paths: ['/sites/:id/live'] },
  {
    load: () => import('./manage'),
    paths: ['/sites/:id/sharing', '/sites/:id/saved', '/sites/:id/usage', '/operator', '/stop-mail'],
  },
  { load: () => import('./account'), paths: ['/audit', '/security'] },
  {
    load: () => import('./more'),
    paths: [
      '/sites/new',
      '/sites/:id/install',
      '/sites/:id/events',
      '/sites/:id/rejections',
      '/sites/:id/webhooks',
      '/sites/:id/export',
      '/sites/:id/settings',
      '/deleted',
      '/captcha',
      '/captcha/new',
      '/captcha/:id',
      '/account',
      '/members',
      '/tokens',
      '/sessions',
      '/accept-invitation',
      '/confirm-email',
    ],
  },
];

const known = [...Object.keys(bare), ...later.flatMap((module) => module.paths), ...Object.keys(first)];

/** patternOf returns the pattern of a path; literal patterns precede patterns with parameters. */
function patternOf(path: string): string | undefined {
  return known.find((pattern) => pattern === path) ?? known.find((pattern) => match(pattern, path));
}

/** useLater returns a page of a module on demand, as soon as the module is loaded. */
function useLater(pattern: string | undefined): Page | undefined {
  const [pages, setPages] = useState<Record<string, Page>>({});
  const module = later.find((module) => pattern && module.paths.includes(pattern));
  useEffect(() => {
    if (!module || !pattern || pages[pattern]) return;
    void Promise.all([module.load(), loadLater()]).then(([m]) => setPages((before) => ({ ...before, ...m.pages })));
  }, [pattern]);
  return module && pattern ? pages[pattern] : undefined;
}

function App() {
  const { pathname } = useURL();
  const pattern = patternOf(pathname);
  const loaded = useLater(pattern);

  const Page = pattern && (bare[pattern] ?? first[pattern] ?? loaded);
  const missing = !pattern && Missing;
  const alone = !!pattern && (pattern in bare || ['/stop-mail', '/accept-invitation', '/confirm-email'].includes(pattern));
  return (
    <Shell bare={alone} narrow={alone && pattern !== '/share'}>
      {Page ? <Page key={pathname + chosenAccount()} {...match(pattern, pathname)} /> : missing ? <Missing /> : <Loading />}
    </Shell>
  );
}

async function start(): Promise<void> {
  applyTheme(remembered('theme'));

  const language = preferredLanguage();
  if (language === 'de') setLanguage(language, (await import('./messages/de')).default as Messages);

  follow((path) => patternOf(path) !== undefined);
  render(<App />, document.getElementById('app')!);
}

void start();
