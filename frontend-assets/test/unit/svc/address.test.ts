import assert from 'node:assert/strict';
import { load, openPage, table } from '../harness';

type Address = typeof import('../../../src/svc/address');

const at = (url: string): Address => {
  openPage({ url });
  return load<Address>('svc/address');
};

// Only the path of a page is sent, never the query string (analytics contract, section 1).
table(
  'currentPath',
  {
    'no query, no fragment': ['http://shop.test/a/b?secret=1#part', '/a/b'],
    'as it stands in the address': ['http://shop.test/a%20b/%C3%A4', '/a%20b/%C3%A4'],
    root: ['http://shop.test', '/'],
    'at most 2,048 characters': ['http://shop.test/' + 'x'.repeat(5000), '/' + 'x'.repeat(2047)],
  },
  ([url, want]) => assert.equal(at(url!).currentPath(), want),
);

table(
  'stripQuery',
  {
    query: ['http://other.test/from?private=1', 'http://other.test/from'],
    fragment: ['http://other.test/from#private', 'http://other.test/from'],
    'question mark in the fragment': ['http://other.test/#a?b', 'http://other.test/'],
    'no referrer': ['', null],
    'query only': ['?private', null],
    'at most 1,024 characters': ['h'.repeat(3000), 'h'.repeat(1024)],
  },
  ([address, want]) => assert.equal(at('http://shop.test/').stripQuery(address!), want),
);

table(
  'queryParameter',
  {
    present: ['?q=boots', 'boots'],
    decoded: ['?q=red+boots%26', 'red boots&'],
    'without surrounding blanks': ['?q=+boots+', 'boots'],
    'the first of two': ['?q=a&q=b', 'a'],
    empty: ['?q=', ''],
    missing: ['?Q=boots', ''],
  },
  ([search, want]) => assert.equal(at('http://shop.test/' + search).queryParameter('q'), want),
);

// The campaign object (analytics contract, section 2).
table(
  'readCampaign',
  {
    'utm values in lower case': [
      '?utm_source=News&utm_medium=E-Mail&utm_campaign=Spring+Sale&utm_content=A%26B&utm_term=%C3%84',
      { source: 'news', medium: 'e-mail', campaign: 'spring sale', content: 'a&b', term: 'ä' },
    ],
    'click ids unchanged': [
      '?gclid=Ab-1&gbraid=B_2&wbraid=C3&fbclid=D4&msclkid=E5',
      { gclid: 'Ab-1', gbraid: 'B_2', wbraid: 'C3', fbclid: 'D4', msclkid: 'E5' },
    ],
    'only values that are present': ['?utm_source=&utm_medium=+&utm_term=x', { term: 'x' }],
    'no other parameters': ['?utm_id=7&source=y&secret=z&term=q', {}],
    none: ['', {}],
    'at most 400 characters each': [
      '?utm_source=' + 'A'.repeat(500) + '&gclid=' + 'B'.repeat(500),
      { source: 'a'.repeat(400), gclid: 'B'.repeat(400) },
    ],
  } as Record<string, [string, object]>,
  ([search, want]) => assert.deepEqual(at('http://shop.test/' + search).readCampaign(), want),
);
