// Why a figure differs from the period compared with.
import { addMessages } from './core/language';
import messages from './messages/why';

addMessages(messages);

export { Why } from './why/why';
