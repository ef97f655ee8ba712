// Imports one function: the built app must not contain the rest.
import { event } from '@tallygate/analytics';

event('signup');
