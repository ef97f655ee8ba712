// Imports all packages and uses nothing of them: the built app must be empty.
import '@tallygate/analytics';
import '@tallygate/captcha';
