// The console's first module: everything until the first view, and the core for the others.
import { type ComponentType, render } from 'preact';
import { isFramed } from './core/api';
import { applyTheme, remembered } from './core/choices';
import { useQuery } from './core/data';
import { type Messages, preferredLanguage, setLanguage } from './core/language';
import { loadModule } from './core/modules';
import { match } from './core/path';
import { follow, useURL } from './core/router';
import { Shell } from './core/shell';
import { Loaded, Missing } from './core/states';
import { chosenAccount } from './core/store';
import { SignIn } from './pages/enter';
import { Overview } from './pages/overview';
import { Shared } from './pages/shared';
import { Sites } from './pages/sites';

export * from './exports';

/** Page is a page's component with the parameters of its path. */
type Page = ComponentType<Record<string, string>>;

/** These pages of this module have no menus. */
const bare: Record<string, Page> = {
  '/sign-in': SignIn,
  '/share': Shared,
  '/embed/:id': Shared,
};
const first: Record<string, Page> = { '/': Sites, '/sites/:id': Overview as Page };

/** modules lists what is loaded on demand, each with the paths of its pages. */
const modules: { load: () => Promise<{ pages: Record<string, Page> }>; paths: string[] }[] = [
  { load: () => import('./drilldown'), paths: ['/sites/:id/live'] },
  {
    load: () => import('./site'),
    paths: [
      '/sites/:id/events', '/sites/:id/rejections', '/sites/:id/webhooks', '/sites/:id/export', '/sites/:id/sharing', '/sites/:id/saved',
      '/sites/:id/usage', '/deleted',
    ],
  },
  { load: () => import('./install'), paths: ['/sites/new', '/sites/:id/install'] },
  { load: () => import('./settings'), paths: ['/sites/:id/settings', '/sites/:id/measurement', '/sites/:id/exclusions', '/sites/:id/advanced'] },
  { load: () => import('./captcha'), paths: ['/captcha', '/captcha/new', '/captcha/:id'] },
  {
    load: () => import('./account'),
    paths: [
      '/sign-up', '/account', '/members', '/tokens', '/sessions', '/security', '/forgot-password', '/reset-password',
      '/confirm-sign-up', '/accept-invitation', '/confirm-email', '/stop-mail', '/confirm-alerts',
    ],
  },
  { load: () => import('./audit'), paths: ['/audit'] },
  { load: () => import('./operator'), paths: ['/operator'] },
  { load: () => import('./provider'), paths: ['/sign-in/provider', '/provider'] },
  { load: () => import('./alerts'), paths: ['/sites/:id/alerts', '/alerts'] },
  { load: () => import('./import'), paths: ['/sites/:id/import'] },
];

const known = [...Object.keys(bare), ...modules.flatMap((module) => module.paths), ...Object.keys(first)];

/** patternOf returns the pattern of a path, or ''; literal patterns precede patterns with parameters. */
function patternOf(path: string): string {
  return known.find((pattern) => pattern === path) ?? known.find((pattern) => match(pattern, path)) ?? '';
}

/** Later shows a page of a module that is loaded on demand, as soon as the module is loaded. */
function Later({ pattern, values }: { pattern: string; values: Record<string, string> }) {
  const query = useQuery(loadPages, { pattern });
  return (
    <Loaded query={query}>
      {(pages) => {
        const Page = pages[pattern]!;
        return <Page {...values} />;
      }}
    </Loaded>
  );
}

/** loadPages loads the module with the page of a pattern. */
const loadPages = async ({ pattern }: { pattern: string }): Promise<Record<string, Page>> =>
  (await loadModule(modules.find(({ paths }) => paths.includes(pattern))!.load)).pages;

/** These pages of modules that are loaded on demand have no menus either. */
const alsoBare = [
  '/forgot-password', '/reset-password', '/confirm-sign-up', '/accept-invitation', '/confirm-email', '/stop-mail', '/confirm-alerts',
  '/sign-in/provider', '/sign-up',
];

function App() {
  const { pathname } = useURL();
  const pattern = patternOf(pathname);
  const Page = bare[pattern] ?? first[pattern];
  const alone = pattern in bare || alsoBare.includes(pattern);
  const key = pathname + chosenAccount();
  const values = match(pattern, pathname) ?? {};
  if (isFramed) {
    return (
      <main id="main" class="framed">
        <Shared />
      </main>
    );
  }
  return (
    <Shell bare={alone} narrow={alone && pattern !== '/share'}>
      {Page ? (
        <Page key={key} {...values} />
      ) : pattern ? (
        <Later key={key} pattern={pattern} values={values} />
      ) : (
        <Missing />
      )}
    </Shell>
  );
}

async function start(): Promise<void> {
  applyTheme(remembered('theme'));

  const language = preferredLanguage();
  if (language === 'de') {
    const texts = loadModule(() => import('./messages/de')).then((module) => module.default as Messages);
    setLanguage(language, await texts.catch(() => ({})));
  }

  follow((path) => patternOf(path) !== '');
  render(<App />, document.getElementById('app')!);
}

void start();
