// What colours, words and sizes mean, in one place: a thing has the same colour on every panel of every dashboard.

// Grafana's own palette by name, so that light and dark themes both fit.
export const colour = {
  blue: '#5794F2', green: '#73BF69', darkGreen: '#37872D', orange: '#FF9830', darkOrange: '#FA6400', purple: '#B877D9',
  red: '#F2495C', darkRed: '#C4162A', yellow: '#FADE2A', grey: '#8E8E8E', teal: '#5AC8C8', lightBlue: '#8AB8FF', darkBlue: '#1F60C4',
};

// The five classes are cut into parts that add up: what of the input came from nowhere else, what of the output is no reasoning.
export const token = {
  'new input': colour.blue, 'cache write': colour.darkGreen, 'cache read': colour.green, 'reply': colour.orange, 'reasoning': colour.purple,
};
export const direction = { 'input': colour.blue, 'output': colour.orange };
export const outcome = {
  'ok': colour.green, 'error': colour.red, 'denied': colour.darkOrange, 'skipped': colour.grey, 'cancelled': colour.yellow, 'no end seen': colour.teal,
};
export const action = { 'allow': colour.green, 'deny': colour.darkOrange, 'ask': colour.yellow };
export const runStatus = {
  'completed': colour.green, 'error': colour.red, 'aborted': colour.darkRed, 'rejected': colour.darkOrange, 'vetoed': colour.orange,
  'cancelled': colour.yellow, 'open': colour.blue,
};
export const sessionStatus = {
  'idle': colour.green, 'busy': colour.blue, 'retrying': colour.yellow, 'waiting_on_approval': colour.orange, 'waiting_on_user_input': colour.orange,
  'error': colour.red, 'aborted': colour.darkRed,
};
export const compaction = { 'summary': colour.purple, 'prune': colour.orange, 'revert': colour.yellow };
export const quantile = { 'p50': colour.lightBlue, 'p90': colour.blue, 'p95': colour.blue, 'p99': colour.darkBlue };
export const lane = { 'run': colour.grey, 'turn': colour.blue, 'tool': colour.teal, 'waits for': colour.yellow, 'compaction': colour.purple };
export const flow = { 'accepted': colour.green, 'stored': colour.green, 'foreign': colour.grey, 'refused': colour.yellow, 'failed': colour.red, 'rejected': colour.darkOrange };

// Thresholds: [from, colour], the first without a lower bound.
export const goodWhenNone = [[null, colour.green], [1, colour.red]];
export const shareOfFailures = [[null, colour.green], [0.01, colour.yellow], [0.05, colour.red]];
export const cacheShare = [[null, colour.red], [0.0001, colour.yellow], [0.5, colour.green]];
export const plain = [[null, colour.blue]];
