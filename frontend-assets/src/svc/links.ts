import { flushBeforeLeaving } from './engagement';
import { sendEvent } from './event';
import { listen } from './guard';
import { auto } from './tag';

const files =
  /([^/]+\.(pdf|docx?|xlsx?|pptx?|od[tsp]|rtf|txt|csv|zip|rar|7z|gz|dmg|exe|msi|pkg|apk|epub|mp[34]|wav|mov|avi|wmv|mkv))$/i;

/**
 * Watches clicks on links. It flushes engagement before a click leads away, and sends events for
 * downloads and for links to other websites.
 */
export const watchLinks = (): void => {
  const clicked = (click: MouseEvent) => {
    // The composed path includes open shadow roots and the elements within the link.
    const link = click.composedPath().find((node) => /^a(rea)?$/i.test((node as Element).tagName)) as
      HTMLAnchorElement | undefined;
    const href = link && ((link.href as unknown as SVGAnimatedString).baseVal ?? link.href);
    // The right button opens a menu.
    if (!href || click.button > 1) return;
    const target = new URL(href, document.baseURI);
    const web = /^http/.test(target.protocol);

    if (web && target.href.split('#')[0] !== location.href.split('#')[0]) flushBeforeLeaving();
    if (!auto) return;

    const file = files.exec(web ? target.pathname : '') || files.exec(link.download || '');
    if (file) sendEvent('file_download', { file: file[1], ext: file[2]!.toLowerCase() });

    // Only the server knows the site's other domains. It drops clicks that lead to them.
    if (web && !('.' + target.hostname).endsWith('.' + location.hostname.replace(/^www\./, '')))
      sendEvent('outbound_click', { host: target.hostname });
  };
  listen(document, 'click', clicked);
  listen(document, 'auxclick', clicked);
};
