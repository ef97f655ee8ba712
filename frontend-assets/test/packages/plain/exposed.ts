// Gives the test of the calls what the package exports.
import * as analytics from '@tallygate/analytics';

Object.assign(window, { analytics });
