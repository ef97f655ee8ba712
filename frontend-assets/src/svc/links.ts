import { flushBeforeLeaving } from './engagement';
import { event } from './event';
import { listen } from './guard';
import { auto } from './tag';

const files =
  /([^/]+\.(pdf|docx?|xlsx?|pptx?|od[tsp]|rtf|txt|csv|zip|rar|7z|gz|dmg|exe|msi|pkg|apk|epub|mp[34]|wav|mov|avi|wmv|mkv))$/i;

/**
 * Watches clicks on links: engagement goes out before one leads away; downloads and links to other
 * websites are events.
 */
export const watchLinks = (): void => {
  const clicked = (click: MouseEvent) => {
    // The way of the click also leads through open shadow roots, and out of whatever lies inside of
    // the link.
    const link = click.composedPath().find((node) => /^a(rea)?$/i.test((node as Element).tagName)) as HTMLAnchorElement | undefined;
    const href = link && ((link.href as unknown as SVGAnimatedString).baseVal ?? link.href);
    // The third button opens a menu.
    if (!href || click.button > 1) return;
    const target = new URL(href, document.baseURI);
    const web = /^http/.test(target.protocol);

    if (web && target.href.split('#')[0] !== location.href.split('#')[0]) flushBeforeLeaving();
    if (!auto) return;

    const file = files.exec(web ? target.pathname : '') || files.exec(link.download || '');
    if (file) event('file_download', { file: file[1], ext: file[2]!.toLowerCase() });

    // Other domains of the site are only known to the server, which drops clicks that lead to them.
    if (web && !('.' + target.hostname).endsWith('.' + location.hostname.replace(/^www\./, '')))
      event('outbound_click', { host: target.hostname });
  };
  listen(document, 'click', clicked);
  listen(document, 'auxclick', clicked);
};
