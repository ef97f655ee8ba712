// The pages of an account and its users, and the second step of signing in.
import type { ComponentType } from 'preact';
import { ConfirmSignUp, ForgotPassword, ResetPassword } from './account/forgotten';
import { AcceptInvitation } from './account/invitation';
import { Account, ConfirmEmail, Members } from './account/people';
import { Security } from './account/security';
import { SignUp } from './account/signup';
import { ConfirmAlerts, StopMail } from './account/stopmail';
import { Tokens } from './account/tokens';
import { addMessages } from './core/language';
import messages from './messages/account';
import parts from './messages/parts';

addMessages({ ...messages, ...parts });

export { byPasskey, SecondFactor } from './account/proof';
export { usePasskey, withPasskey } from './account/webauthn';

export const pages: Record<string, ComponentType<any>> = {
  '/sign-up': SignUp,
  '/account': Account,
  '/members': Members,
  '/tokens': Tokens,
  '/sessions': Security,
  '/security': Security,
  '/forgot-password': ForgotPassword,
  '/reset-password': ResetPassword,
  '/confirm-sign-up': ConfirmSignUp,
  '/accept-invitation': AcceptInvitation,
  '/confirm-email': ConfirmEmail,
  '/stop-mail': StopMail,
  '/confirm-alerts': ConfirmAlerts,
};
