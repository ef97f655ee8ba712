// The forms of alert channels.
import { ChannelFields, saveChannel, saveOwn, Wishes } from './alerts/form';
import { addMessages } from './core/language';
import messages from './messages/alertform';

addMessages(messages);

export { ChannelFields, saveChannel, saveOwn, Wishes };
