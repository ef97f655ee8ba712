// The download of a whole report, as a zip of CSV files.
import { addMessages } from './core/language';
import messages from './messages/zip';

addMessages(messages);

export { Download } from './zip/download';
