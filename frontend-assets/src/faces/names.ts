/**
 * Names of our own meaning, with the properties that such an event needs. Automatic events need one
 * that no page sends: the script sends them by itself.
 */
const required: Record<string, string> = {
  outbound_click: '-',
  file_download: '-',
  scroll: '-',
  site_search: '-',
  view_item: 'item_id',
  add_to_cart: 'item_id',
  begin_checkout: 'value currency',
  purchase: 'transaction_id value currency',
  refund: 'transaction_id value currency',
};

/**
 * Returns the name of an event as sites register it: lower case, one `_` for each run of characters
 * that names do not have, at most 48 characters. `Signup Button!` is `signup_button`.
 */
export const nameOf = (text: unknown): string =>
  String(text)
    .toLowerCase()
    .replace(/[^\da-z_-]+/g, '_')
    .replace(/^_+/, '')
    .slice(0, 48)
    .replace(/_+$/, '');

/**
 * Returns nameOf for an event of the page's own. With an automatic event's name, or an e-commerce
 * event's without its required properties, it is `own_NAME`.
 */
export const ownName = (text: unknown, properties: unknown): string => {
  const name = nameOf(text);
  // The name may be an inherited property's, such as constructor.
  const needed = required.hasOwnProperty(name) ? required[name]!.split(' ') : [];
  return needed.every((key) => key in Object(properties)) ? name : 'own_' + name;
};
