import assert from 'node:assert/strict';
import { load, openPage, table } from '../harness';

type Names = typeof import('../../../src/faces/names');
type Core = typeof import('../../../src/faces/core');

const names = (): Names => {
  openPage({ url: 'http://shop.test/' });
  return load<Names>('faces/names');
};

// A name that sites can register (analytics contract, section 2 "Registered names").
table(
  'nameOf',
  {
    'blanks and case': ['Signup Button!', 'signup_button'],
    'one for each run': ['a  -> b', 'a_-_b'],
    'none at the ends': ['__ a __', 'a'],
    'other alphabets': ['Größe', 'gr_e'],
    numbers: [404, '404'],
    'at most 48 characters': ['x'.repeat(60), 'x'.repeat(48)],
    'no _ where it is cut': ['x'.repeat(47) + ' y', 'x'.repeat(47)],
    'nothing that remains': ['!?', ''],
    'no text': [undefined, 'undefined'],
  },
  ([text, want]) => assert.equal(names().nameOf(text), want),
);

table(
  'ownName',
  {
    own: ['Signup', undefined, 'signup'],
    automatic: ['scroll', { percent: 90 }, 'own_scroll'],
    'e-commerce': ['view_item', { item_id: 'a' }, 'view_item'],
    'e-commerce without a property': ['purchase', { value: 1, currency: 'EUR' }, 'own_purchase'],
    'properties that are a text': ['purchase', 'x', 'own_purchase'],
    'name of an inherited property': ['constructor', undefined, 'constructor'],
  },
  ([text, properties, want]) => assert.equal(names().ownName(text, properties), want),
);

const pathOf = (address: unknown, fragments?: unknown): string => {
  openPage({ url: 'http://shop.test/here?secret#/secret' });
  const core = load<Core>('faces/core');
  if (fragments) core.followFragment();
  return core.pathOf(address);
};

table(
  'pathOf',
  {
    address: ['http://shop.test/a/b?secret#secret', 0, '/a/b'],
    path: ['/a?secret', 0, '/a'],
    'relative path': ['b?secret', 0, '/b'],
    'no fragment': ['/a#/secret', 0, '/a'],
    'fragment as a path': ['/a#/b?secret', 1, '/b'],
    'fragment with !': ['/a#!/b#secret', 1, '/b'],
    'other fragment': ['/a#secret/b', 1, '/a'],
    'at most 2,048 characters': ['/' + 'x'.repeat(5000), 0, '/' + 'x'.repeat(2047)],
  },
  ([address, fragments, want]) => assert.equal(pathOf(address, fragments), want),
);
