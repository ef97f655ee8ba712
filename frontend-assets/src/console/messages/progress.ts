// English texts of the progress of a long reading.
export default {
  'state.limited': 'The rate limit is reached.',
  'state.continues': { one: 'It continues in {n} second.', other: 'It continues in {n} seconds.' },
  'state.stop': 'Stop',
};
