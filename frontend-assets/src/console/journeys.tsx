// Journeys and cohorts of a report, which it opens on demand.
import { addMessages } from './core/language';
import messages from './messages/journeys';

addMessages(messages);

export { Cohorts } from './journeys/cohorts';
export { Journeys, Starts } from './journeys/journeys';
