import assert from 'node:assert/strict';
import { load, table } from '../harness';

const { secondsToShow } = load<typeof import('../../../src/captcha/widget/wait')>('captcha/widget/wait');

// Expected waits in seconds, one after another, and the seconds that are shown with each.
table(
  'the wait that is shown',
  {
    'at most 8 seconds': [
      [0, 3, 8],
      [0, 0, 0],
    ],
    'more than 8 seconds': [[8.1], [10]],
    'in steps of five': [
      [21, 19, 17.4, 13, 12, 9, 7.9, 3, 0],
      [20, 20, 15, 15, 10, 10, 0, 0, 0],
    ],
    'estimates that vary': [
      [20, 23, 16, 18, 15, 16.9, 12, 12.4],
      [20, 20, 15, 15, 15, 15, 10, 10],
    ],
    'estimates that vary about 8 seconds': [
      [9, 7.9, 8.5, 7, 11.9, 12.1],
      [10, 0, 0, 0, 0, 10],
    ],
    'short at first': [
      [6, 9],
      [0, 10],
    ],
    'a browser that gets slower': [
      [20, 29, 31, 60, 840],
      [20, 20, 30, 60, 840],
    ],
  } as Record<string, [number[], number[]]>,
  ([waits, want]) => {
    let shown = 0;
    let before = false;
    const got = waits.map((wait) => {
      shown = secondsToShow(wait * 1000, shown, before);
      before = before || shown > 0;
      return shown;
    });
    assert.deepEqual(got, want);
  },
);
