// The list of pages that a page stands next to.
import type { ComponentChildren } from 'preact';
import { useState } from 'preact/hooks';
import { t, type TextKey } from '../core/language';
import { Mark } from '../core/site';
import { isGuest, isOwner, viewer } from '../core/store';
import { Title } from '../core/ui';

/** Group is a heading, which may be empty, with the addresses and names of its pages. */
type Group = [heading: string, pages: [address: string, text: string][]];

/** PageMenu lists pages in groups. Narrow windows show it on demand, below the current page's name. */
export function PageMenu(props: { label: string; title: string; groups: Group[]; marked?: string | undefined }) {
  const { title, marked } = props;
  const [open, setOpen] = useState(false);
  return (
    <nav class={open ? 'pages open' : 'pages'} aria-label={props.label}>
      <button type="button" aria-expanded={open} aria-label={t('menu.open', { page: title })} onClick={() => setOpen(!open)}>
        {title}
        <Mark on={!!marked} />
      </button>
      <ul>
        {props.groups.map(([heading, pages], i) => (
          <li>
            {heading && <p id={'menu-' + i}>{heading}</p>}
            <ul aria-labelledby={heading ? 'menu-' + i : undefined}>
              {pages.map(([address, text]) => (
                <li>
                  <a href={address} aria-current={location.pathname === address ? 'page' : undefined}>
                    {text}
                    <Mark on={address === marked} />
                  </a>
                </li>
              ))}
            </ul>
          </li>
        ))}
      </ul>
    </nav>
  );
}

/** AccountPage is a page of the chosen account or of its user, with the list of these pages. */
export function AccountPage({ title, children }: { title: string; children: ComponentChildren }) {
  const user = viewer.use();
  const names = ['account', ...(isGuest(user) ? [] : ['members', 'alerts']), 'tokens', 'security', ...(isOwner(user) ? ['audit', 'deleted'] : [])];
  return (
    <div class="area">
      <PageMenu label={t('nav.account')} title={title} groups={[['', names.map((name) => ['/' + name, t(('nav.' + name) as TextKey)])]]} />
      <div>
        <Title text={title} />
        {children}
      </div>
    </div>
  );
}
