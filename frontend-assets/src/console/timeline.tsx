// What the report opens at its chart and at the choice of its period.
import { addMessages } from './core/language';
import messages from './messages/timeline';

addMessages(messages);

export { ComparedDates, Dates } from './timeline/dates';
export { CompareMenu, IntervalMenu, PeriodMenu } from './timeline/menus';
export { smoothed } from './timeline/smoothed';
export { Tip } from './timeline/tip';
